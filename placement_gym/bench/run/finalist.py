"""A placement measured alongside the fastest single device."""

from __future__ import annotations

from dataclasses import dataclass

from placement_gym.backends.protocol import Measurement
from placement_gym.base.arrays import IntArray
from placement_gym.bench.run.verdict import compare_with_best_single


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
        """``"yes"``, ``"no"`` or ``"within noise"``."""
        doubt = self.measurement.doubt
        return compare_with_best_single(self.speedup_vs_best_single, self.noise, doubt)
