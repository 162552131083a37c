"""Chains of moves under the model of a schedule: annealing, whose random moves are accepted if they
cost less, or with a probability that falls.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt8
from placement_gym.problem import Problem
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers.search.list_schedule import advance_list, estimate_list
from placement_gym.solvers.search.loads import advance_sums, estimate_loads
from placement_gym.solvers.search.model import LIST, SIMULATED, Layout, Model, State, make_state
from placement_gym.solvers.search.moves import GAIN, TRIES, draw_allowance, keep_limits, undo
from placement_gym.solvers.search.proposals import N_KINDS, propose
from placement_gym.solvers.search.rebuild import rebuild

COSTS = np.array([0.8, 0.9, 1.2, 1.0, 0.8, 2.5, 1.0])
"""Relative time of each kind of move."""
LEAST_SHARE = 0.05
"""Of each kind among all moves."""
FADING = 0.98
"""Weight of what was gained before, at every look."""
LEAST_MS = 1e-100
"""Least cost to which a gain is compared."""


class Elite(NamedTuple):
    """A placement to which the search may return."""

    ms: float  # what it costs
    place: UInt8  # (n_units,) uint8 devices
    price: float  # of memory, with which it was built
    line: float  # number of the chain that began the line of chains it comes from


class Chains:
    """Makes chains of moves, and continues them."""

    def __init__(self, problem: Problem, simulator: Simulator, rng: np.random.Generator) -> None:
        self.problem, self.simulator, self.rng = problem, simulator, rng
        self.limited = simulator.semantics.limits_weights and problem.limited
        self.model = Model.from_simulator(simulator)
        self.layout = Layout.from_problem(problem, self.model, self.limited)
        self.lines = count()
        # of each kind of move what it gained and its time, and cumulative probabilities
        self.gains, self.times = np.ones(N_KINDS), np.ones(N_KINDS)
        self.shares = np.cumsum(np.full(N_KINDS, 1.0 / N_KINDS))

    def start(
        self, place: IntArray | UInt8, price: float = 0.0, line: float | None = None
    ) -> State:
        """A chain at an (n_units,) placement, which is its best one if it keeps the limits."""
        state = make_state(self.model, self.layout, place, price)
        if self.model.kind == SIMULATED:
            cost = cost_ms(self.problem, self.simulator, state.place)
        elif self.model.kind == LIST:
            cost = estimate_list(self.model, state)
        else:
            cost = estimate_loads(self.model, state)
        over = np.maximum(state.used - self.layout.limit, 0.0).sum()
        state.scalars.now_ms, state.scalars.over_bytes = cost, over
        state.scalars.best_ms = np.inf if over else cost
        state.scalars.line = next(self.lines) if line is None else line
        return state

    def cross(self, one: Elite, other: Elite) -> State:
        """A chain at a placement that agrees with ``other`` on a stretch of the order.

        Half of the stretches continue to the end.
        """
        n_units = len(one.place)
        first, last = np.sort(self.rng.integers(n_units, size=2))
        stretch = self.layout.order[first : n_units if self.rng.random() < 0.5 else last]
        place = one.place.copy()
        place[stretch] = other.place[stretch]
        return self.start(place, one.price)

    def build(self, place: UInt8, price: float = 0.0) -> State:
        """A chain at a placement that is built one unit after another, or at the given one."""
        state = self.start(place, price)
        if rebuild(self.model, self.layout, state, self.rng, 0, len(state.place)) == 0:
            return self.start(place, price)
        return self.start(state.place, float(state.scalars.price))

    def anneal(self, state: State, n_moves: int, heat: tuple[float, float]) -> None:
        """Continue a chain; see ``advance_list``."""
        counts = np.zeros((N_KINDS, 2))
        if self.model.kind == SIMULATED:
            self.anneal_simulated(state, n_moves, heat, counts)
        else:
            advance = advance_list if self.model.kind == LIST else advance_sums
            model, layout = self.model, self.layout
            advance(model, layout, state, self.rng, n_moves, heat, self.shares, counts)
        # kinds that gain more in their time are tried more often
        counts[:, GAIN] /= max(float(state.scalars.best_ms), LEAST_MS)
        self.gains = FADING * self.gains + counts[:, GAIN]
        self.times = FADING * self.times + counts[:, TRIES] * COSTS
        rate = self.gains / self.times
        shares = LEAST_SHARE + (1.0 - LEAST_SHARE * N_KINDS) * rate / rate.sum()
        self.shares = np.cumsum(shares)

    def anneal_simulated(
        self, state: State, n_moves: int, heat: tuple[float, float], counts: FloatArray
    ) -> None:
        """Continue a chain each of whose moves is simulated from the beginning."""
        hot, cold = heat
        model, layout = self.model, self.layout
        for k in range(n_moves):
            n_moved, kind, freed = propose(model, layout, state, self.rng, self.shares, counts)
            if freed >= 0:
                n_moved, _ = keep_limits(model.kind, layout, state, self.rng, n_moved, freed)
            if not n_moved:
                continue
            temperature = cold + (hot - cold) * (1.0 - k / n_moves) ** 2
            allowance = draw_allowance(self.rng)
            now, best = float(state.scalars.now_ms), float(state.scalars.best_ms)
            cost = cost_ms(self.problem, self.simulator, state.place)
            if cost < np.inf and (now == np.inf or cost <= now * (1.0 + temperature * allowance)):
                state.on[:] = state.place[model.unit]
                state.scalars.now_ms = cost
                if cost < best:
                    counts[kind, GAIN] += best - cost if best < np.inf else 0.0
                    state.scalars.best_ms = cost
                    state.best[:] = state.place
            else:
                undo(layout, state, n_moved)
