"""Measured ratios and their noise: 0.1 means that the ratio is within a factor of 1.1."""

from __future__ import annotations

MAX_SYMMETRIC_NOISE = 0.15
"""Maximum noise that is written as ±, which is off by at most 2 %."""
MAX_MEASURABLE_NOISE = 0.5
"""Maximum noise of a measurement that does not differ from 1. Hand-tuned."""
UNMEASURABLE = "not measurable"
RUN_AGAIN = "its times spread too far to tell faster from slower"
"""Reason of an undecided measurement without a known disturbance."""


def interval(ratio: float, noise: float) -> tuple[float, float]:
    """Return the ends of the interval of a ratio; both are positive."""
    return ratio / (1.0 + noise), ratio * (1.0 + noise)


def is_above_one(ratio: float, noise: float) -> bool:
    """Return whether a ratio is above 1 beyond its noise."""
    return interval(ratio, noise)[0] > 1.0


def is_below_one(ratio: float, noise: float) -> bool:
    """Return whether a ratio is below 1 beyond its noise."""
    return interval(ratio, noise)[1] < 1.0


def is_measurable(ratio: float, noise: float) -> bool:
    """Return whether a ratio is precise enough to print, or differs from 1 beyond its noise."""
    return noise <= MAX_MEASURABLE_NOISE or is_above_one(ratio, noise) or is_below_one(ratio, noise)


def join_noise(noise: float, other: float) -> float:
    """Return the noise of the quotient of two ratios."""
    return (1.0 + noise) * (1.0 + other) - 1.0


def format_ratio(ratio: float, noise: float, digits: int = 3) -> str:
    """Format as ``"1.210 ±0.030"``, ``"1.210 (1.008 to 1.452)"`` or ``"not measurable"``."""
    if not is_measurable(ratio, noise):
        return UNMEASURABLE
    if not noise:
        return f"{ratio:.{digits}f}"
    if noise <= MAX_SYMMETRIC_NOISE:
        return f"{ratio:.{digits}f} ±{ratio * noise:.{digits}f}"
    low, high = interval(ratio, noise)
    return f"{ratio:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def format_noise(noise: float) -> str:
    """Format as ``"±3.1 %"``, or ``"a factor of 1.4"`` if that is large."""
    if noise <= MAX_SYMMETRIC_NOISE:
        return f"±{100 * noise:.1f} %"
    return f"a factor of {1.0 + noise:.1f}"
