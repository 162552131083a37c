"""Chains of moves under the model of a schedule."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt8
from placement_gym.problem import Problem
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers.search.anneal import anneal_list, anneal_sums
from placement_gym.solvers.search.draws import draw_allowance
from placement_gym.solvers.search.ejections import keep_limits, undo
from placement_gym.solvers.search.list_schedule import estimate_list
from placement_gym.solvers.search.loads import estimate_loads
from placement_gym.solvers.search.model import LIST, SIMULATED, Layout, Model, State, make_state
from placement_gym.solvers.search.proposals import GAIN, N_KINDS, TRIES, propose
from placement_gym.solvers.search.rebuild import rebuild

COSTS = np.array([0.8, 0.9, 1.2, 1.0, 0.8, 2.5, 1.0])
"""Relative time of each kind of move."""
LEAST_SHARE = 0.05
"""Of each kind among all moves."""
FADING = 0.98
"""Weight of what was gained before, at every look."""
LEAST_MS = 1e-100
"""Least cost to which a gain is compared."""


class MoveKinds:
    """Shares of the kinds of move: those that gain more in their time are tried more often."""

    def __init__(self) -> None:
        self.gains, self.times = np.ones(N_KINDS), np.ones(N_KINDS)
        self.cumulative = np.cumsum(np.full(N_KINDS, 1.0 / N_KINDS))

    def learn(self, counts: FloatArray) -> None:
        """Take in what (n_kinds, 2) tries and gains were."""
        self.gains = FADING * self.gains + counts[:, GAIN]
        self.times = FADING * self.times + counts[:, TRIES] * COSTS
        rate = self.gains / self.times
        shares = LEAST_SHARE + (1.0 - LEAST_SHARE * N_KINDS) * rate / rate.sum()
        self.cumulative = np.cumsum(shares)


class Chains:
    """Makes chains of moves, and continues them.

    Args:
        problem: Units, devices and limits.
        simulator: What a placement costs.
        rng: Source of all random numbers.
    """

    def __init__(self, problem: Problem, simulator: Simulator, rng: np.random.Generator) -> None:
        self.problem, self.simulator, self.rng = problem, simulator, rng
        axes = simulator.semantics
        hard = axes.memory in ("static", "lifetime") and axes.memory_penalty_ms_per_gb is None
        self.limited = hard and problem.limited
        self.model = Model.of(simulator)
        self.layout = Layout.of(problem, self.model, self.limited)
        self.kinds = MoveKinds()
        self.lines = count()

    def start(self, place: IntArray | UInt8, price: float = 0.0) -> State:
        """A chain at an (n_units,) placement, which is its best one if it keeps the limits.

        Args:
            place: Devices.
            price: Of memory, as in ``State``.
        """
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
        state.scalars.line = next(self.lines)
        return state

    def resume(self, elite: Elite) -> State:
        """A chain at the placement of an elite, whose line it continues."""
        state = self.start(elite.place, elite.price)
        state.scalars.line = elite.line
        return state

    def cross(self, one: Elite, other: Elite) -> State:
        """A chain at a placement that agrees with ``other`` on a stretch of the order.

        Half of the stretches go on to the end.
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
        """Continue a chain; see ``anneal_list``."""
        counts = np.zeros((N_KINDS, 2))
        if self.model.kind == SIMULATED:
            self.anneal_simulated(state, n_moves, heat, counts)
        else:
            kernel = anneal_list if self.model.kind == LIST else anneal_sums
            model, layout, shares = self.model, self.layout, self.kinds.cumulative
            kernel(model, layout, state, self.rng, n_moves, heat, shares, counts)
        counts[:, GAIN] /= max(float(state.scalars.best_ms), LEAST_MS)
        self.kinds.learn(counts)

    def anneal_simulated(
        self, state: State, n_moves: int, heat: tuple[float, float], counts: FloatArray
    ) -> None:
        """The same where each move is simulated from the beginning."""
        hot, cold = heat
        model, layout, shares = self.model, self.layout, self.kinds.cumulative
        for k in range(n_moves):
            n_moved, kind, freed = propose(model, layout, state, self.rng, shares, counts)
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


class Elite(NamedTuple):
    """A placement to which the search may return.

    Attributes:
        ms: What it costs.
        place: (n_units,) uint8 devices.
        price: Of memory, with which it was built.
        line: Number of the chain that began the line of chains it comes from.
    """

    ms: float
    place: UInt8
    price: float
    line: float
