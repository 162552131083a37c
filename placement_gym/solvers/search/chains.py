"""Chains of random moves: cheaper ones are accepted, others with a decreasing probability."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt8, inlined_part, kernel, part, signed
from placement_gym.problem import Problem
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers.search.ejections import draw_allowance, keep_limits, put_back, undo
from placement_gym.solvers.search.list_schedule import (
    add_loads,
    copy_loads,
    copy_schedule,
    estimate_list,
    estimate_loads,
    find_makespan,
    find_reach,
    free_devices,
    may_devices_end,
    may_readers_end,
    measure_loads,
    measure_tails,
    note_critical,
    run_on,
    run_span,
)
from placement_gym.solvers.search.model import (
    LIST,
    LOAD,
    SIMULATED,
    Layout,
    Model,
    State,
    make_state,
)
from placement_gym.solvers.search.proposals import GAIN, N_KINDS, REFRESH, TRIES, propose
from placement_gym.solvers.search.rebuild import rebuild

EPSILON = 2.0**-52
"""Rounding of a sum, as a share of it."""
NEGLIGIBLE = 1e-9
"""Rounding, as a share of the cost, up to which sums are updated instead of added up again."""


@kernel
def advance_list(
    model: Model,
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    n_moves: int,
    heat: tuple[float, float],
    shares: FloatArray,
    counts: FloatArray,
) -> None:
    """Make moves under a list schedule; the state ends at the last placement, the cheapest is kept.

    ``heat`` is the first and last temperature, as a share of the cost; ``shares`` and ``counts``,
    which also gets gains, are those of ``propose``.
    """
    scalars, finish, free = state.scalars, state.finish, state.free
    kept, kept_free = state.kept, state.kept_free
    for step in range(n_moves):
        # occasionally: the units on which the latency depends
        if (scalars.n_moves + 1) % REFRESH == 0 or scalars.n_critical == 0:
            note_critical(model, state)
        n_moved, kind, freed = propose(model, layout, state, rng, shares, counts)
        if freed < 0:
            continue
        n_moved, over = keep_limits(model.kind, layout, state, rng, n_moved, freed)
        if n_moved == 0:
            continue
        limit_ms = draw_limit(state, rng, heat, step / n_moves, over)

        # its cost: what the change reaches is run again
        lowest, last = set_operators(layout, state, n_moved)
        free_devices(model, state, lowest)
        passes, reached, reach = run_span(model, state, lowest, last, limit_ms)
        passes = passes and may_devices_end(state, last, limit_ms)
        cost = np.inf
        if passes and may_readers_end(model, state, lowest, last, limit_ms):
            reached = run_on(model, state, last + 1, reach, state.device_free)
            cost = find_makespan(state)

        # keep it, or go back
        if cost <= limit_ms:
            copy_schedule(finish, free, kept, kept_free, lowest, reached)
            measure_tails(model, state, last, find_reach(model, layout, state, n_moved, lowest))
            scalars.now_ms, scalars.over_bytes = cost, over
            note_best(state, counts, kind, cost, over)
        else:
            put_back(layout, state, n_moved)
            set_operators(layout, state, n_moved)
            copy_schedule(kept, kept_free, finish, free, lowest, reached)


@kernel
def advance_sums(
    model: Model,
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    n_moves: int,
    heat: tuple[float, float],
    shares: FloatArray,
    counts: FloatArray,
) -> None:
    """Make moves if the cost is a sum or the largest load; see ``advance_list``."""
    scalars, load = state.scalars, state.load
    kept = np.empty(len(load))
    if model.kind == LOAD and scalars.now_ms < np.inf:
        scalars.now_ms = measure_loads(model.kind, state.load)[0]
    for step in range(n_moves):
        n_moved, kind, freed = propose(model, layout, state, rng, shares, counts)
        if freed < 0:
            continue
        n_moved, over = keep_limits(model.kind, layout, state, rng, n_moved, freed)
        if n_moved == 0:
            continue
        limit_ms = draw_limit(state, rng, heat, step / n_moves, over)

        # its cost: sums and loads are updated
        copy_loads(load, kept)
        move_loads(model, layout, state, n_moved)
        cost, largest = measure_loads(model.kind, load)

        # keep it, or go back
        if cost <= limit_ms:
            # where much was subtracted, the rest is mostly rounding
            scalars.rounding_ms += EPSILON * (scalars.now_ms + cost)
            if scalars.rounding_ms > NEGLIGIBLE * cost:
                scalars.rounding_ms = 0.0
                estimate_loads(model, state)
                cost, largest = measure_loads(model.kind, load)
            scalars.now_ms, scalars.over_bytes = cost, over
            note_best(state, counts, kind, largest, over)
        else:
            put_back(layout, state, n_moved)
            set_operators(layout, state, n_moved)
            copy_loads(kept, load)


@part
def move_loads(model: Model, layout: Layout, state: State, n_moved: int) -> None:
    """Move the operators of moved units, and update sums or loads."""
    # subtract the loads of the old placement, then add those of the new one; in a loop, so that
    # `add_loads` is inlined once
    sign = -1.0
    for _ in range(2):
        add_loads(model, layout, state, n_moved, sign)
        if sign < 0.0:
            set_operators(layout, state, n_moved)
        sign = 1.0


@inlined_part
def set_operators(layout: Layout, state: State, n_moved: int) -> tuple[int, int]:
    """Write the devices of moved units to their operators; return the first and the last."""
    ops, first_op, on = layout.ops, layout.first_op, state.on
    lowest, last = len(on), -1
    for k in range(n_moved):
        u = state.moved[k]
        lowest = min(lowest, signed(ops[first_op[u]]))
        last = max(last, signed(ops[first_op[u + 1] - 1]))
        for at in range(first_op[u], first_op[u + 1]):
            on[ops[at]] = state.place[u]
    return lowest, last


@inlined_part
def draw_limit(
    state: State,
    rng: np.random.Generator,
    heat: tuple[float, float],
    done: float,
    over: float,
) -> float:
    """Draw the largest cost in ms at which a move is accepted."""
    (hot, cold), scalars = heat, state.scalars
    left = 1.0 - done
    temperature = cold + (hot - cold) * left * left
    limit_ms = scalars.now_ms + scalars.penalty_ms * scalars.over_bytes
    limit_ms *= 1.0 + temperature * draw_allowance(rng)
    return limit_ms - scalars.penalty_ms * over


@inlined_part
def note_best(state: State, counts: FloatArray, kind: int, cost: float, over: float) -> None:
    """Keep a placement if it is the cheapest one within the limits."""
    scalars = state.scalars
    if (over <= 0.0) & (cost < scalars.best_ms):
        counts[kind, GAIN] += scalars.best_ms - cost if scalars.best_ms < np.inf else 0.0
        scalars.best_ms = cost
        copy_devices(state.place, state.best)


@inlined_part
def copy_devices(place: np.ndarray, best: np.ndarray) -> None:
    """Copy a placement."""
    for u in range(len(place)):
        best[u] = place[u]


COSTS = np.array([0.8, 0.9, 1.2, 1.0, 0.8, 2.5, 1.0])
"""Relative time of each kind of move."""
LEAST_SHARE = 0.05
"""Minimum share of each kind among all moves."""
FADING = 0.98
"""Factor of earlier gains and times, after every few moves."""
LEAST_MS = 1e-100
"""Minimum cost to which a gain is compared."""


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
        # gains, times and cumulative probabilities of the kinds of move
        self.gains, self.times = np.ones(N_KINDS), np.ones(N_KINDS)
        self.shares = np.cumsum(np.full(N_KINDS, 1.0 / N_KINDS))

    def start(
        self, place: IntArray | UInt8, price: float = 0.0, line: float | None = None
    ) -> State:
        """A chain at an (n_units,) placement, which is its best one if it is within the limits."""
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
        # kinds that gain more per time are tried more often
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
