"""Verdicts of measurements: faster, slower or undecided, and the choice of finalists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from placement_gym.backends.protocol import PENALTY, Backend, Measurement
from placement_gym.backends.single_devices import SingleDeviceResults
from placement_gym.base import IntArray, is_above_one, is_below_one

YES, NO, WITHIN_NOISE = "yes", "no", "within noise"
"""Answers of ``judge``."""
MIN_GAIN = 5e-4
"""Smallest gain that counts: a smaller one is printed as 0.0 %."""
CONTENDER_SHARE = 0.8
"""Smallest share of the best measured speed-up for which a placement may still be the fastest.
Hand-tuned: beyond the noise of a sample."""
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
    if abs(ratio - 1.0) < MIN_GAIN:
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
        finalists: Those that were measured already, by the bytes of their assignments.
    """

    def __init__(self, backend: Backend, singles: SingleDeviceResults, noisy: bool) -> None:
        self.backend, self.problem = backend, backend.problem
        self.singles, self.noisy = singles, noisy
        self.finalists: dict[bytes, Finalist] = {}

    @cached_property
    def best_single(self) -> int | None:
        """The fastest device that may run the model alone; None if none may.

        Where latencies are noisy, and several devices may be it, these are measured together as
        finalists are; once more if that was doubtful. A finalist that beats a device which only
        looked fastest would be a false win.
        """
        best, speeds = self.singles.best(), self.singles.speedups()
        rivals = [
            device for device in speeds if speeds[device] >= CONTENDER_SHARE * max(speeds.values())
        ]
        if not self.noisy or len(rivals) < 2:
            return best
        placements = [self.problem.single(device) for device in rivals]
        for _ in range(2):
            measurements = self.backend.remeasure(placements)
            if not any(measurement.warning for measurement in measurements):
                break
        return max(zip(measurements, rivals, strict=True), key=lambda pair: pair[0].speedup)[1]

    def choose(self, candidates: Sequence[IntArray]) -> Finalist:
        """Measure every candidate again and return the fastest; where noisy in a new process.

        The fastest of several noisy measurements is biased, and a race of several ends before each
        is known exactly. So a candidate that is not clearly slower than the best single device is
        measured once more, alone, and that measurement counts; so is one whose measurement is
        doubtful, and if it still is, it decides nothing. This happens once to a placement, also if
        an earlier run measured it alongside others.
        """
        unknown = [
            candidate for candidate in candidates if candidate.tobytes() not in self.finalists
        ]
        if unknown:
            self.remeasure(unknown)
        finals = [self.finalists[candidate.tobytes()] for candidate in candidates]
        finalist = max(finals, key=lambda final: final.speedup_vs_best_single)
        uncertain = finalist.beats_best_single != NO or finalist.measurement.warning
        if not (self.noisy and uncertain) or finalist.rechecked:
            return finalist
        self.remeasure([finalist.assignment])
        key = finalist.assignment.tobytes()
        self.finalists[key] = replace(self.finalists[key], rechecked=True)
        return self.finalists[key]

    def remeasure(self, candidates: Sequence[IntArray]) -> None:
        """Measure placements alongside the best single device and keep them in ``finalists``.

        The reference device is measured with the first of them.
        """
        problem, best = self.problem, self.best_single
        reference = problem.single(problem.reference_device)
        single = reference if best is None else problem.single(best)
        by_key = {assignment.tobytes(): assignment for assignment in (single, *candidates)}
        earlier = self.finalists.get(reference.tobytes())
        if earlier is None:
            by_key[reference.tobytes()] = reference
        measured = self.backend.remeasure(list(by_key.values()))
        measurements = dict(zip(by_key, measured, strict=True))
        if earlier is None and best is not None and not self.backend.infeasibility(reference):
            measurements = self.choose_faster_single(measurements, reference)
        keys = {candidate.tobytes() for candidate in candidates}
        of_reference = earlier.measurement if earlier else measurements[reference.tobytes()]
        handicap = PENALTY if best is None else 1.0
        for key, measurement in measurements.items():
            speedup = measurement.speedup / of_reference.speedup
            if key in keys or key not in self.finalists:
                self.finalists[key] = Finalist(by_key[key], measurement, speedup, handicap)

    def choose_faster_single(
        self, measurements: dict[bytes, Measurement], reference: IntArray
    ) -> dict[bytes, Measurement]:
        """Measurements relative to the reference device if that is the faster single device.

        The reference is a single device, and the best of these cannot be slower. If the one that
        was taken for the best is, the reference takes its place; all were measured together.

        Args:
            measurements: By the bytes of assignments, relative to the best single device so far.
            reference: Its assignment, which may run alone.
        """
        single_measurement = measurements[reference.tobytes()]
        if single_measurement.speedup <= 1.0:
            return measurements
        self.best_single = self.problem.reference_device
        return {
            key: replace(measured, reference_ms=single_measurement.latency_ms)
            for key, measured in measurements.items()
        }
