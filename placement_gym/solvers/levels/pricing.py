"""Placing a hierarchy from its coarsest level to its finest, under given terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.solvers.levels.coarsen import Hierarchy
from placement_gym.solvers.levels.levels import Level
from placement_gym.solvers.levels.refine import (
    TRIES,
    RefinementPrices,
    State,
    descend,
    exchange,
    make_state,
    relieve,
)

FIRST_ROUNDS, ROUNDS, LAST_ROUNDS = 40, 3, 3
"""Number of passes over the coarsest level, over every other one, and over the finest one when
limits hold."""
FIRST_STEP, STEP = 0.5, 0.2
"""How fast prices follow what is held above or below the limits: at first, and later."""
LEAST_REGRET = 0.01
"""Minimum regret that sets the first price of memory, as a share of the total time: among equal
devices the price would otherwise be zero, and remain zero."""


@dataclass(frozen=True)
class PricingTerms:
    """What a placement is charged for; see ``refine.RefinementPrices``.

    Attributes:
        transfer: Factor of transfers.
        power: Power of the loads; zero is a serial schedule.
    """

    transfer: float
    power: float


class Pricing:
    """Places a hierarchy; the usual load carries over from one placement to the next.

    Args:
        hierarchy: Levels from the finest to the coarsest.
        limits_bytes: (n_devices,) bytes that fit.
        rng: Draws the order of moves.
    """

    def __init__(
        self, hierarchy: Hierarchy, limits_bytes: FloatArray, rng: np.random.Generator
    ) -> None:
        self.hierarchy, self.limits, self.rng = hierarchy, limits_bytes, rng
        level = hierarchy.levels[0]
        self.limited = np.isfinite(limits_bytes)
        slowest_ms, fastest_ms = level.ms.max(axis=1).sum(), level.ms.min(axis=1).sum()
        regret = max(slowest_ms - fastest_ms, LEAST_REGRET * fastest_ms)
        typical = regret / max(level.held.sum(), 1.0)
        self.first_prices = np.where(self.limited, typical, 0.0)
        self.usual_ms = float(fastest_ms / level.ms.shape[1]) or 1.0

    def place(self, terms: PricingTerms) -> IntArray:
        """(n_units,) devices found under the terms; limits hold unless nothing fits."""
        per_byte, rounds, step = self.first_prices.copy(), FIRST_ROUNDS, FIRST_STEP
        levels = self.hierarchy.levels
        coarsest = levels[-1]
        place = np.where(coarsest.possible, coarsest.ms, np.inf).argmin(axis=1)
        for at in reversed(range(len(levels))):
            level = levels[at]
            state = make_state(level, place, self.limits)
            for _ in range(rounds):
                prices = RefinementPrices(per_byte, terms.transfer, terms.power, self.usual_ms)
                descend(level, state, prices, self.rng.permutation(len(place)), False)
                per_byte = per_byte * np.exp(step * self.excess(state))
            rounds, step = ROUNDS, STEP
            place = state.place if at == 0 else state.place[self.hierarchy.parents[at - 1]]
        self.finish(state, terms, per_byte)
        self.usual_ms = float(state.load.mean()) or 1.0
        return state.place

    def excess(self, state: State) -> FloatArray:
        """(n_devices,) bytes above the limit, relative to it and clipped to between -1 and 1."""
        limits = np.where(self.limited, np.maximum(self.limits, 1.0), 1.0)
        excess: FloatArray = np.where(self.limited, -state.room / limits, 0.0)
        return np.clip(excess, -1.0, 1.0)

    def finish(self, state: State, terms: PricingTerms, per_byte: FloatArray) -> None:
        """Make the finest level's placement feasible, and refine it within limits."""
        level: Level = self.hierarchy.levels[0]
        n = len(level.ms)
        prices = RefinementPrices(per_byte, terms.transfer, terms.power, self.usual_ms)
        relieve(level, state, prices, np.zeros(n, dtype=np.bool_))
        free = prices._replace(per_byte=0.0 * per_byte)
        for _ in range(LAST_ROUNDS):
            moves = descend(level, state, free, self.rng.permutation(n), True)
            draws = self.rng.random((n, TRIES))
            swaps = exchange(level, state, free, self.rng.permutation(n), draws)
            if not moves + swaps:
                break
