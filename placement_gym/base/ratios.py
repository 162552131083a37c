"""Measured ratios with their uncertainty, which is a factor: no interval reaches zero.

A noise of .1 says that the ratio is within a factor of 1.1, down or up, as intervals of the mean of
log ratios are (``backends.measured.timing``).
"""

from __future__ import annotations

MAX_SYMMETRIC_NOISE = 0.15
"""Noise up to which ± replaces the interval: its lower end is then off by 2 % at most."""
MAX_MEASURABLE_NOISE = 0.5
"""Noise beyond which an interval around 1 is not a measurement but interference. Hand-tuned."""
UNMEASURABLE = "not measurable"
RUN_AGAIN = "its times spread too far to tell faster from slower"
"""Why a measurement decides nothing, where nothing else is known to have disturbed it."""


def interval(ratio: float, noise: float) -> tuple[float, float]:
    """The ends of the interval of a ratio, which are above zero."""
    return ratio / (1.0 + noise), ratio * (1.0 + noise)


def is_above_one(ratio: float, noise: float) -> bool:
    """Return whether a ratio is above 1 beyond its noise."""
    return interval(ratio, noise)[0] > 1.0


def is_below_one(ratio: float, noise: float) -> bool:
    """Return whether a ratio is below 1 beyond its noise."""
    return interval(ratio, noise)[1] < 1.0


def is_measurable(ratio: float, noise: float) -> bool:
    """Return whether a ratio is known well enough to print, or is at least above or below 1."""
    return noise <= MAX_MEASURABLE_NOISE or is_above_one(ratio, noise) or is_below_one(ratio, noise)


def join_noise(noise: float, other: float) -> float:
    """The noise of the quotient of two ratios."""
    return (1.0 + noise) * (1.0 + other) - 1.0


def format_ratio(ratio: float, noise: float, digits: int = 3) -> str:
    """``"1.210 ±0.030"``, ``"1.210 (1.008 to 1.452)"`` if that is far, or ``"not measurable"``."""
    if not is_measurable(ratio, noise):
        return UNMEASURABLE
    if not noise:
        return f"{ratio:.{digits}f}"
    if noise <= MAX_SYMMETRIC_NOISE:
        return f"{ratio:.{digits}f} ±{ratio * noise:.{digits}f}"
    low, high = interval(ratio, noise)
    return f"{ratio:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def format_noise(noise: float) -> str:
    """``"±3.1 %"``, or ``"a factor of 1.4"`` where that is far."""
    return (
        f"±{100 * noise:.1f} %"
        if noise <= MAX_SYMMETRIC_NOISE
        else f"a factor of {1.0 + noise:.1f}"
    )
