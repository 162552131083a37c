"""The first line of ``plan``, ``evaluate`` and ``place``: what the placement file holds."""

from __future__ import annotations

from collections import Counter

from placement_gym.base.texts import join_words
from placement_gym.problem.placement import Placement


def describe_saved(
    placement: Placement, speedup: float | None = None, noise: float = 0.0, best_single: str = ""
) -> str:
    """Say what a file holds: ``"Saved: CPU alone"``, or which units of a split are elsewhere.

    As ``"Saved: a split, 17 of 57 units on GPU, 1.21 ±.03 x CPU alone"``.

    Args:
        placement: What the file holds.
        speedup: Over the best single device; None if no device may run the model alone.
        noise: Uncertainty of ``speedup``, as a share of it.
        best_single: Label of that device, as ``"CPU alone"``.
    """
    (main, _), *others = Counter(placement.units.values()).most_common()
    if not others:
        return f"Saved: {main} alone"
    (first, count), *rest = others
    moved = join_words([f"on {first}", *(f"{n} on {name}" for name, n in rest)])
    gain = describe_gain(speedup, noise, best_single)
    return f"Saved: a split, {count} of {len(placement.units)} units {moved}{gain}"


def describe_gain(speedup: float | None, noise: float, best_single: str) -> str:
    """``", 1.21 ±.03 x CPU alone"``; nothing where no device may run the model alone."""
    if speedup is None:
        return ""
    uncertainty = f"{speedup * noise:.2f}".removeprefix("0")
    return f", {speedup:.2f}{f' ±{uncertainty}' if noise else ''} x {best_single}"
