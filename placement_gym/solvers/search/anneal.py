"""Annealing: random moves, accepted if they cost less, or with a probability that falls."""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, inlined_part, kernel, part, signed
from placement_gym.solvers.search.draws import draw_allowance
from placement_gym.solvers.search.ejections import keep_limits, put_back
from placement_gym.solvers.search.list_schedule import (
    copy_schedule,
    find_makespan,
    find_reach,
    free_devices,
    may_devices_end,
    may_readers_end,
    measure_tails,
    note_critical,
    run_on,
    run_span,
)
from placement_gym.solvers.search.loads import (
    add_loads,
    copy_loads,
    estimate_loads,
    measure_loads,
)
from placement_gym.solvers.search.model import LOAD, Layout, Model, State
from placement_gym.solvers.search.proposals import GAIN, REFRESH, propose

EPSILON = 2.0**-52
"""Rounding of a sum, as a share of it."""
NEGLIGIBLE = 1e-9
"""Rounding, as a share of the cost, up to which sums are kept up to date; then they are added up
from the beginning."""


@kernel
def anneal_list(
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

    Args:
        model: Operators, of kind ``LIST``.
        layout: Units.
        state: Has been estimated.
        rng: Source of random numbers.
        n_moves: Number of moves.
        heat: First and last temperature, as a share of the cost.
        shares: (n_kinds,) cumulative probabilities of kinds.
        counts: (n_kinds, 2) gets tries and gains of each kind.
    """
    scalars, finish, free = state.scalars, state.finish, state.free
    kept, kept_free = state.kept, state.kept_free
    for step in range(n_moves):
        # now and then: the units on which the latency depends
        if (scalars.n_moves + 1) % REFRESH == 0 or scalars.n_critical == 0:
            note_critical(model, state)
        n_moved, kind, freed = propose(model, layout, state, rng, shares, counts)
        if freed < 0:
            continue
        n_moved, over = keep_limits(model.kind, layout, state, rng, n_moved, freed)
        if n_moved == 0:
            continue
        limit_ms = draw_limit(state, rng, heat, step / n_moves, over)

        # what it costs now: what the change reaches is run again
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
def anneal_sums(
    model: Model,
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    n_moves: int,
    heat: tuple[float, float],
    shares: FloatArray,
    counts: FloatArray,
) -> None:
    """Make moves where the cost is a sum or the largest load; see ``anneal_list``."""
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

        # what it costs now: sums and loads of what moved are updated
        copy_loads(load, kept)
        move_loads(model, layout, state, n_moved)
        cost, largest = measure_loads(model.kind, load)

        # keep it, or go back
        if cost <= limit_ms:
            # where much was taken away, what is left is mostly rounding
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
    """Let the operators of moved units follow them, and sums or loads with these."""
    # subtract the loads of the old placement, then add those of the new one; a loop, so that
    # add_loads is compiled into one call
    sign = -1.0
    for _ in range(2):
        add_loads(model, layout, state, n_moved, sign)
        if sign < 0.0:
            set_operators(layout, state, n_moved)
        sign = 1.0


@inlined_part
def set_operators(layout: Layout, state: State, n_moved: int) -> tuple[int, int]:
    """Write the devices of moved units to their operators; returns the first and the last."""
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
    """Draw the largest cost with which a move is accepted, in ms."""
    (hot, cold), scalars = heat, state.scalars
    left = 1.0 - done
    temperature = cold + (hot - cold) * left * left
    limit_ms = scalars.now_ms + scalars.penalty_ms * scalars.over_bytes
    limit_ms *= 1.0 + temperature * draw_allowance(rng)
    return limit_ms - scalars.penalty_ms * over


@inlined_part
def note_best(state: State, counts: FloatArray, kind: int, cost: float, over: float) -> None:
    """Keep a placement if it is the cheapest one that keeps the limits."""
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
