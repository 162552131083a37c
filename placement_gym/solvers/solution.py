"""What a solver found, and what it proved."""

from __future__ import annotations

from dataclasses import dataclass

from placement_gym.arrays import IntArray


@dataclass(frozen=True)
class Solution:
    """A placement and a bound on all of them.

    Attributes:
        assignment: (n_units,) the best placement found; None if there is none.
        bound_ms: No placement has a lower latency in the solver's model; infinite if there is no
            feasible one.
        proven: Whether ``assignment`` reaches ``bound_ms``, to the solver's gap.
    """

    assignment: IntArray | None
    bound_ms: float
    proven: bool
