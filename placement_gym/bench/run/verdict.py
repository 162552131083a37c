"""Faster than the best single device? The one place that decides it."""

from __future__ import annotations

YES, NO, WITHIN_NOISE = "yes", "no", "within noise"

LEAST_GAIN = 5e-4
"""A gain that is written as 0.0 % is none."""

UNDECIDED = (
    "Whether {} could not be decided: {}. Measure again while nothing else runs on this machine."
)


def compare_with_best_single(ratio: float, noise: float, doubt: str = "") -> str:
    """``"yes"`` or ``"no"``, or ``"within noise"`` where the measurement cannot decide.

    Args:
        ratio: Speed-up over the fastest feasible single device.
        noise: Half-width of the uncertainty of ``ratio``, as a fraction of it.
        doubt: Why the measurement decides nothing, or an empty string.
    """
    if abs(ratio - 1.0) < LEAST_GAIN:
        return NO
    if doubt:
        return WITHIN_NOISE
    if ratio * (1 + noise) < 1.0:
        return NO
    return YES if ratio * (1 - noise) > 1.0 else WITHIN_NOISE
