"""The result of a solver: a placement and a bound."""

from __future__ import annotations

from dataclasses import dataclass

from placement_gym.arrays import IntArray


@dataclass(frozen=True)
class Solution:
    """A placement, and a lower bound on the latency of every placement.

    Attributes:
        assignment: (n_units,) the best placement found; None if there is none.
        bound_ms: Lower bound of the latency in the solver's model; infinite if no placement is
            feasible.
        proven: Whether ``assignment`` reaches ``bound_ms``, to the solver's gap.
    """

    assignment: IntArray | None
    bound_ms: float
    proven: bool
