"""Whether a placement beats the best single device: one decision, made the same way everywhere."""

from __future__ import annotations

YES, NO, WITHIN_NOISE = "yes", "no", "within noise"


def compare_with_best_single(ratio: float, noise: float) -> str:
    """``"yes"`` or ``"no"``, or ``"within noise"`` where that cannot be told.

    Args:
        ratio: Speed-up over the fastest single device; exactly 1 is that device itself.
        noise: Half-width of the uncertainty of ``ratio``, as a fraction of it.
    """
    if ratio == 1.0 or ratio * (1 + noise) < 1.0:
        return NO
    return YES if ratio * (1 - noise) > 1.0 else WITHIN_NOISE
