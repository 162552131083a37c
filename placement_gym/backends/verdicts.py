"""What measurements decide: faster, slower or neither, and which placements are measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from placement_gym.backends.protocol import PENALTY, Backend, Measurement
from placement_gym.backends.single_devices import SingleDeviceResults
from placement_gym.base.arrays import IntArray
from placement_gym.base.ratios import is_above_one, is_below_one

YES, NO, WITHIN_NOISE = "yes", "no", "within noise"
"""Answers of ``judge``."""
LEAST_GAIN = 5e-4
"""A gain that is written as 0.0 % is none."""
CONTENDER_SHARE = 0.8
"""A measured speed-up below this share of the best one is slower beyond any noise."""
UNDECIDED = (
    "Whether {} could not be decided: {}. Measure again while nothing else runs on this machine."
)
DISTURBED_WIN = (
    "{}: other programs took {:.0%} of the time; the speed-up on an idle machine differs"
)


def judge(ratio: float, noise: float, warning: str = "") -> str:
    """Return ``"yes"`` or ``"no"``, or ``"within noise"`` where the measurement cannot decide.

    Args:
        ratio: Speed-up over what a placement is compared with.
        noise: How far off ``ratio`` may be, as a share: see ``base.ratios``.
        warning: Why the measurement decides nothing, or an empty string.
    """
    if abs(ratio - 1.0) < LEAST_GAIN:
        return NO
    if warning:
        return WITHIN_NOISE
    if is_below_one(ratio, noise):
        return NO
    return YES if is_above_one(ratio, noise) else WITHIN_NOISE


def judge_row(row: Mapping[str, Any]) -> str:
    """Judge the row of a report by its ``speedup``, ``noise`` and ``warning``."""
    return judge(row["speedup"], row["noise"], row["warning"])


@dataclass(frozen=True)
class Finalist:
    """A placement measured alongside the fastest single device.

    Attributes:
        assignment: (n_units,) device indices.
        measurement: Its own, relative to the fastest feasible single device.
        speedup: Over the reference device, which is measured with the first finalists.
        handicap: Factor of the speed-up over the single device: 1 where some device may run the
            model alone, else the penalty of an infeasible placement.
        rechecked: Whether this is its measurement after it was chosen, without rivals.
    """

    assignment: IntArray
    measurement: Measurement
    speedup: float
    handicap: float = 1.0
    rechecked: bool = False

    @property
    def speedup_vs_best_single(self) -> float:
        return self.measurement.speedup * self.handicap

    @property
    def noise(self) -> float:
        """Half-width of the uncertainty of ``speedup_vs_best_single``, as a fraction."""
        return self.measurement.noise

    @property
    def beats_best_single(self) -> str:
        """The answer of ``judge``."""
        return judge(self.speedup_vs_best_single, self.noise, self.measurement.warning)


class Finals:
    """Measures the finalists of a problem again, alongside the best single device, and chooses.

    Args:
        backend: Measures them.
        singles: Measurements of every device alone that were made before.
        noisy: Whether latencies are measured, not simulated.

    Attributes:
        known: Finalists that were measured already, by the bytes of their assignments.
    """

    def __init__(self, backend: Backend, singles: SingleDeviceResults, noisy: bool) -> None:
        self.backend, self.problem = backend, backend.problem
        self.singles, self.noisy = singles, noisy
        self.known: dict[bytes, Finalist] = {}

    @cached_property
    def best_single(self) -> int | None:
        """The fastest device that may run the model alone; None if none may.

        Where latencies are noisy, and several devices may be it, these are measured together as
        finalists are; once more if that was doubtful. A finalist that beats a device which only
        looked fastest would be a false win.
        """
        best, speeds = self.singles.best(), self.singles.speedups()
        rivals = [one for one in speeds if speeds[one] >= CONTENDER_SHARE * max(speeds.values())]
        if not self.noisy or len(rivals) < 2:
            return best
        placements = [self.problem.single(device) for device in rivals]
        for _ in range(2):
            found = self.backend.remeasure(placements)
            if not any(measurement.warning for measurement in found):
                break
        return max(zip(found, rivals, strict=True), key=lambda pair: pair[0].speedup)[1]

    def choose(self, candidates: Sequence[IntArray]) -> Finalist:
        """Measure every candidate again and return the fastest; where noisy in a new process.

        The fastest of several noisy measurements is biased, and a race of several ends before each
        is known exactly. So a candidate that is not clearly slower than the best single device is
        measured once more, alone, and that measurement counts; so is one whose measurement is
        doubtful, and if it still is, it decides nothing. This happens once to a placement, also if
        an earlier run measured it alongside others.

        Args:
            candidates: Distinct feasible placements.
        """
        unknown = [one for one in candidates if one.tobytes() not in self.known]
        if unknown:
            self.remeasure(unknown)
        finals = [self.known[candidate.tobytes()] for candidate in candidates]
        chosen = max(finals, key=lambda final: final.speedup_vs_best_single)
        uncertain = chosen.beats_best_single != NO or chosen.measurement.warning
        if not (self.noisy and uncertain) or chosen.rechecked:
            return chosen
        self.remeasure([chosen.assignment])
        key = chosen.assignment.tobytes()
        self.known[key] = replace(self.known[key], rechecked=True)
        return self.known[key]

    def remeasure(self, candidates: Sequence[IntArray]) -> None:
        """Measure placements alongside the best single device and keep them in ``known``.

        The reference device is measured with the first of them.
        """
        problem, best = self.problem, self.best_single
        reference = problem.single(problem.reference_device)
        single = reference if best is None else problem.single(best)
        by_key = {one.tobytes(): one for one in (single, *candidates)}
        known = self.known.get(reference.tobytes())
        if known is None:
            by_key[reference.tobytes()] = reference
        measured = self.backend.remeasure(list(by_key.values()))
        measurements = dict(zip(by_key, measured, strict=True))
        if known is None and best is not None and not self.backend.infeasibility(reference):
            measurements = self.choose_faster_single(measurements, reference)
        wanted = {candidate.tobytes() for candidate in candidates}
        of_reference = known.measurement if known else measurements[reference.tobytes()]
        handicap = PENALTY if best is None else 1.0
        for key, measurement in measurements.items():
            speedup = measurement.speedup / of_reference.speedup
            if key in wanted or key not in self.known:
                self.known[key] = Finalist(by_key[key], measurement, speedup, handicap)

    def choose_faster_single(
        self, measurements: dict[bytes, Measurement], reference: IntArray
    ) -> dict[bytes, Measurement]:
        """Measurements relative to the reference device if that is the faster single device.

        The reference is a single device, so that the best of these is not slower. If the one that
        was taken for the best is, the reference takes its place; all were measured together.

        Args:
            measurements: By the bytes of assignments, relative to the best single device so far.
            reference: Its assignment, which may run alone.
        """
        alone = measurements[reference.tobytes()]
        if alone.speedup <= 1.0:
            return measurements
        self.best_single = self.problem.reference_device
        return {
            key: replace(one, reference_ms=alone.latency_ms) for key, one in measurements.items()
        }
