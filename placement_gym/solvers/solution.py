"""The result of a solver: a placement and a bound."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from placement_gym.base import IntArray

ROUNDING = 1e-9
"""Relative error of a sum of times, at most. Hand-tuned: far above that of 100,000 float64 terms.
"""
TOLERANCE = 1e-4
"""Relative gap to the bound at which a latency is called the optimum."""


@dataclass(frozen=True)
class Solution:
    """A placement, and a lower bound on the latency of every placement.

    Attributes:
        assignment: (n_units,) the best placement found; None if there is none.
        bound_ms: Lower bound of the latency in the solver's model; infinite if none is feasible.
        proven: Whether the latency of ``assignment`` in that model, computed from the costs and
            not taken from a program, reaches ``bound_ms`` to the solver's gap.
    """

    assignment: IntArray | None
    bound_ms: float
    proven: bool


def reaches(latency_ms: float, bound_ms: float, gap: float = TOLERANCE) -> bool:
    """Return whether a latency is finite and at most this share above a bound."""
    return isfinite(latency_ms) and latency_ms <= bound_ms * (1.0 + gap)
