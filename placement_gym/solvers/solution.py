"""The result of a solver: a placement and a bound."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from placement_gym.base import IntArray

ROUNDING = 1e-9
"""Maximum relative error of a sum of times. Hand-tuned: far above that of 100,000 float64 terms."""
TOLERANCE = 1e-4
"""Relative gap to the bound up to which a latency counts as the optimum."""


@dataclass(frozen=True)
class Solution:
    """A placement, and a lower bound on the latency of every placement.

    Attributes:
        assignment: (n_units,) the best placement found; None if there is none.
        bound_ms: Lower bound in the solver's model; infinite if no placement is feasible.
        proven: Whether the latency of ``assignment``, computed from the costs in that model,
            reaches ``bound_ms`` within the solver's gap.
    """

    assignment: IntArray | None
    bound_ms: float
    proven: bool


def reaches(latency_ms: float, bound_ms: float, gap: float = TOLERANCE) -> bool:
    """Return whether a latency is finite and exceeds a bound by at most this share."""
    return isfinite(latency_ms) and latency_ms <= bound_ms * (1.0 + gap)
