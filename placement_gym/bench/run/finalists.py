"""A finalist: a placement measured again, and whether it beats the best single device."""

from __future__ import annotations

from dataclasses import dataclass

from placement_gym.backends.protocol import Measurement
from placement_gym.base.arrays import IntArray
from placement_gym.base.ratios import is_above_one, is_below_one

YES, NO, WITHIN_NOISE = "yes", "no", "within noise"

LEAST_GAIN = 5e-4
"""A gain that is written as 0.0 % is none."""

UNDECIDED = (
    "Whether {} could not be decided: {}. Measure again while nothing else runs on this machine."
)

DISTURBED_WIN = "{}: other programs took {:.0%} of the time; idle, its speed-up is another one"


def compare_with_best_single(ratio: float, noise: float, doubt: str = "") -> str:
    """Return ``"yes"`` or ``"no"``, or ``"within noise"`` where the measurement cannot decide.

    Args:
        ratio: Speed-up over the fastest feasible single device.
        noise: How far off ``ratio`` may be, as a share: see ``base.ratios``.
        doubt: Why the measurement decides nothing, or an empty string.
    """
    if abs(ratio - 1.0) < LEAST_GAIN:
        return NO
    if doubt:
        return WITHIN_NOISE
    if is_below_one(ratio, noise):
        return NO
    return YES if is_above_one(ratio, noise) else WITHIN_NOISE


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
        """The answer of ``compare_with_best_single``."""
        doubt = self.measurement.doubt
        return compare_with_best_single(self.speedup_vs_best_single, self.noise, doubt)
