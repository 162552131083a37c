"""Verdicts of measurements: faster, slower or undecided, and the choice of finalists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np

from placement_gym.backends.protocol import PENALTY, Backend, Measurement
from placement_gym.backends.single_devices import SingleDeviceResults
from placement_gym.base import IntArray, is_above_one, is_below_one, join_noise

YES, NO, WITHIN_NOISE = "yes", "no", "within noise"
"""Answers of ``judge``."""
MIN_GAIN = 5e-4
"""Smallest gain that counts: a smaller one is printed as 0.0 %."""
CONTENDER_SHARE = 0.8
"""Smallest share of the best measured speed-up with which a placement may still be the fastest.
Hand-tuned: beyond the noise of a sample."""
UNDECIDED = (
    "Whether {} could not be decided: {}. Measure again while nothing else runs on this machine."
)
DISTURBED_WIN = (
    "{}: other programs took {:.0%} of the time; the speed-up on an idle machine differs"
)


def judge(ratio: float, noise: float, warning: str = "") -> str:
    """Answer whether a placement is faster: ``"yes"``, ``"no"`` or ``"within noise"``.

    Args:
        ratio: Speed-up.
        noise: Half-width of the uncertainty of ``ratio``, as a fraction: see ``base.ratios``.
        warning: Why the measurement cannot decide, or an empty string.
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
        measurement: Relative to the fastest feasible single device.
        speedup: Speed-up over the reference device; nan if that was not measured.
        handicap: Factor of the speed-up over the single device: ``PENALTY`` if no device may run
            the model alone, else 1.
        rechecked: Whether it was measured after it was chosen, without rivals.
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
    """Measures finalists together with the best single device, and the fastest of them once more.

    If several devices may be the best single one, they are measured together first: beating a
    device that only looked fastest would be a false win.

    Args:
        backend: The backend that measures.
        singles: Earlier measurements of every device alone. Without them the first finalists
            have to include the single devices.
        noisy: Whether latencies are measured, not simulated.

    Attributes:
        best_single: The fastest device that may run the model alone, or None.
        finalists: Bytes of an assignment -> its finalist.
        reference_speedup: Speed-up of the reference device over ``best_single``; nan if unknown.
    """

    def __init__(
        self, backend: Backend, singles: SingleDeviceResults | None = None, noisy: bool = True
    ) -> None:
        self.backend, self.noisy = backend, noisy
        speeds = singles.speedups() if singles else {}
        least = CONTENDER_SHARE * max(speeds.values(), default=0.0)
        self.best_single = max(speeds, key=speeds.__getitem__, default=None)
        self.rivals = [device for device in speeds if noisy and speeds[device] >= least]
        self.finalists: dict[bytes, Finalist] = {}
        self.reference_speedup = nan

    def choose(self, candidates: Sequence[IntArray]) -> Finalist:
        """Measure every candidate again and return the fastest.

        The fastest of several noisy measurements is biased, and a race ends before each is known
        exactly. So unless the fastest is clearly slower than the best single device, it is measured
        once more without rivals, and that measurement counts.
        """
        unknown = [one for one in candidates if one.tobytes() not in self.finalists]
        if unknown:
            self.measure(unknown)
        finals = [self.finalists[candidate.tobytes()] for candidate in candidates]
        finalist = max(finals, key=lambda final: final.speedup_vs_best_single)
        uncertain = finalist.beats_best_single != NO or finalist.measurement.warning
        if not (self.noisy and uncertain) or finalist.rechecked:
            return finalist
        self.measure([finalist.assignment])
        key = finalist.assignment.tobytes()
        self.finalists[key] = replace(self.finalists[key], rechecked=True)
        return self.finalists[key]

    def measure(self, candidates: Sequence[IntArray]) -> None:
        """Measure placements with the best single device; the first ones with the reference too."""
        problem, with_reference = self.backend.problem, not self.finalists
        if with_reference and len(self.rivals) > 1:
            self.settle_best_single()
        reference = problem.single(problem.reference_device)
        single = reference if self.best_single is None else problem.single(self.best_single)
        arms = [single, *candidates, *([reference] if with_reference else [])]
        distinct = list({arm.tobytes(): arm for arm in arms}.values())
        self.keep(distinct, self.backend.remeasure(distinct))

    def settle_best_single(self) -> None:
        """Measure the devices that may be the best single one, twice if there is a warning."""
        placements = list(map(self.backend.problem.single, self.rivals))
        for _ in range(2):
            measured = self.backend.remeasure(placements)
            if not any(measurement.warning for measurement in measured):
                break
        speedups = {one: m.speedup for one, m in zip(self.rivals, measured, strict=True)}
        self.best_single = max(self.rivals, key=speedups.__getitem__)

    def keep(self, assignments: Sequence[IntArray], measured: Sequence[Measurement]) -> None:
        """Keep measurements of one race, relative to the best single device.

        In the first race this is its fastest device, if any. Rechecked finalists stay.
        """
        alone = {
            int(assignment[0]): measurement
            for assignment, measurement in zip(assignments, measured, strict=True)
            if not np.ptp(assignment) and not self.backend.infeasibility(assignment)
        }
        if alone and not self.finalists:
            self.best_single = max(alone, key=lambda device: alone[device].speedup)
        if self.best_single in alone:
            single = alone[self.best_single]
            measured = [compare_with(single, measurement) for measurement in measured]
        by_key = dict(zip((one.tobytes() for one in assignments), measured, strict=True))
        problem = self.backend.problem
        reference = problem.single(problem.reference_device).tobytes()
        if reference in by_key and reference not in self.finalists:
            self.reference_speedup = by_key[reference].speedup
        handicap = PENALTY if self.best_single is None else 1.0
        for assignment, (key, measurement) in zip(assignments, by_key.items(), strict=True):
            if key in self.finalists and self.finalists[key].rechecked:
                continue
            speedup = measurement.speedup / self.reference_speedup
            self.finalists[key] = Finalist(assignment, measurement, speedup, handicap)


def compare_with(single: Measurement, measurement: Measurement) -> Measurement:
    """Make a measurement relative to that of a single device in the same race."""
    if single.speedup == 1.0:  # it was the race's reference
        return measurement
    if measurement is single:
        return replace(single, reference_ms=single.latency_ms, noise=0.0)
    return replace(
        measurement,
        reference_ms=measurement.reference_ms / single.speedup,
        noise=join_noise(measurement.noise, single.noise),
        warning=measurement.warning or single.warning,
        interference=max(measurement.interference, single.interference),
    )
