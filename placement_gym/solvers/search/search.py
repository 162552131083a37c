"""Search: chains of moves from many starts, of which the better ones go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from placement_gym.arrays import FloatArray, IntArray, UInt8
from placement_gym.costs.semantics import Semantics
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.search.anneal import GAIN, TRIES, anneal
from placement_gym.solvers.search.model import (
    BEST,
    PRICE,
    Layout,
    Model,
    State,
    make_state,
)
from placement_gym.solvers.search.moves import N_KINDS, REBUILD

CHAINS = 8
"""Chains of a bracket; after each of its rungs the better half goes on."""
FIRST_MOVES = 50
"""Moves of each chain on the first rung of the first bracket; every bracket has twice as many."""
HEATS = (0.008, 0.004, 0.002, 0.0008, 0.0002)
"""Temperatures, as a share of the cost, between which the rungs of a bracket cool."""
SAMPLES = 16
"""Placements that are built one unit after another before the first bracket."""
WORK = 400_000
"""Operators that are scheduled between two looks at the clock, about."""
MOVE_COSTS = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 3.0])
"""Relative time of each kind of move."""
LEAST_SHARE = 0.05
FADING = 0.7


@dataclass
class Chain:
    state: State

    @property
    def best_ms(self) -> float:
        return float(self.state.numbers[BEST])


class Search:
    def __init__(
        self, problem: Problem, simulator: Simulator, rng: np.random.Generator, limited: bool = True
    ) -> None:
        self.problem, self.simulator, self.rng = problem, simulator, rng
        self.model = Model.of(simulator)
        self.layout = Layout.of(problem, self.model, limited)
        self.best = np.zeros(problem.n_units, np.uint8)
        self.best_ms = np.inf
        self.elite: list[tuple[float, UInt8, float]] = []
        self.gains = np.ones(N_KINDS)
        self.tries = np.ones(N_KINDS)
        self.shares = np.cumsum(np.full(N_KINDS, 1.0 / N_KINDS))
        self.log: list = []

    def run(self) -> Iterator[State]:
        yield from self.sample()
        length = FIRST_MOVES
        while True:
            chains = [self.start_chain(k) for k in range(CHAINS)]
            for rung in range(len(HEATS) - 1):
                for state in chains:
                    yield from self.anneal(state, length << rung, HEATS[rung : rung + 2])
                chains.sort(key=lambda s: s.numbers[BEST])
                chains = chains[: max(len(chains) // 2, 1)]
            length *= 2
            self.log.append((length, self.best_ms, chains[0].numbers[BEST], np.diff(self.shares, prepend=0).round(2)))

    def sample(self) -> Iterator[State]:
        for state in self.singles():
            self.note(state)
        yield state
        for k in range(SAMPLES):
            yield self.build()

    def singles(self):
        out = []
        for d in range(len(self.problem.devices)):
            if not self.problem.infeasibility(self.problem.single(d)):
                s = make_state(self.model, self.layout, self.problem.single(d))
                anneal(self.model, self.layout, s, self.rng, 0, (0.0, 0.0), self.shares, np.zeros((N_KINDS, 3)))
                out.append(s)
        return out

    def build(self) -> State:
        """A placement built in one pass."""
        from placement_gym.solvers.search.rebuild import rebuild

        base = self.best if len(self.elite) == 0 else self.elite[0][1]
        state = make_state(self.model, self.layout, base, self.draw_price())
        anneal(self.model, self.layout, state, self.rng, 0, (0.0, 0.0), self.shares, np.zeros((N_KINDS, 3)))
        n_moved = rebuild(self.model, self.layout, state, self.rng, 0, self.problem.n_units)
        if n_moved:
            state = make_state(self.model, self.layout, state.place, state.numbers[PRICE])
            anneal(self.model, self.layout, state, self.rng, 0, (0.0, 0.0), self.shares, np.zeros((N_KINDS, 3)))
        self.note(state)
        return state

    def draw_price(self) -> float:
        return self.elite[int(self.rng.integers(len(self.elite)))][2] if self.elite else 0.0

    def start_chain(self, k: int) -> State:
        if k < 2:
            best = self.elite[k % len(self.elite)]
            return make_state(self.model, self.layout, best[1], best[2])
        return self.build()

    def anneal(self, state: State, n_moves: int, heat: FloatArray) -> Iterator[State]:
        per_chunk = max(WORK // len(self.model.unit), 4)
        done = 0
        while done < n_moves:
            chunk = min(per_chunk, n_moves - done)
            hot, cold = heat
            a = hot + (cold - hot) * done / n_moves
            b = hot + (cold - hot) * (done + chunk) / n_moves
            counts = np.zeros((N_KINDS, 3))
            anneal(self.model, self.layout, state, self.rng, chunk, (a, b), self.shares, counts)
            self.gains += counts[:, GAIN] / state.numbers[BEST]
            self.tries += counts[:, TRIES] * MOVE_COSTS
            done += chunk
            self.note(state)
            yield state
        rate = self.gains / self.tries
        share = rate / rate.sum()
        share = LEAST_SHARE + (1 - LEAST_SHARE * N_KINDS) * share
        self.shares = np.cumsum(share / share.sum())
        self.gains *= FADING
        self.tries *= FADING

    def note(self, state: State) -> None:
        ms = float(state.numbers[BEST])
        if ms < self.best_ms:
            self.best_ms, self.best = ms, state.best.copy()
        if all((state.best != other).any() for _, other, _ in self.elite):
            self.elite.append((ms, state.best.copy(), float(state.numbers[PRICE])))
            self.elite.sort(key=lambda one: one[0])
            del self.elite[8:]
