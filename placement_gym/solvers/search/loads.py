"""Sums and loads that are kept up to date while units move, and moves under them."""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, inlined_part, kernel, part, signed
from placement_gym.solvers.search.model import LOAD, SERIAL, Layout, Model, State
from placement_gym.solvers.search.moves import (
    draw_limit,
    keep_limits,
    note_best,
    put_back,
    set_operators,
)
from placement_gym.solvers.search.proposals import propose

SQUARINGS = 5
"""Loads are summed with the exponent 2 to this power."""
EPSILON = 2.0**-52
"""Rounding of a sum, as a share of it."""
NEGLIGIBLE = 1e-9
"""Rounding, as a share of the cost, up to which sums are kept up to date; then they are added up
from the beginning."""


@inlined_part
def add_loads(model: Model, layout: Layout, state: State, n_moved: int, sign: float) -> None:
    """Add what moved units and their tensors cost, or take it away."""
    scalars, on, ops, first_op = state.scalars, state.on, layout.ops, layout.first_op
    first, first_made, stamp = model.first, model.first_made, state.stamp
    scalars.n_updates += 1
    now = scalars.n_updates
    # a tensor counts once, though several of its operators may have moved: hence the stamps
    for k in range(n_moved):
        u = state.moved[k]
        for at in range(first_op[u], first_op[u + 1]):
            i = ops[at]
            state.load[on[i]] += sign * model.ms[i, on[i]]
            for t in range(first_made[i], first_made[i + 1]):
                if stamp[t] != now:
                    stamp[t] = now
                    add_tensor(model, on, state.load, signed(t), sign)
            for r in range(first[i], first[i + 1]):
                t = model.tensor[r]
                if stamp[t] != now:
                    stamp[t] = now
                    add_tensor(model, on, state.load, signed(t), sign)


@inlined_part
def add_tensor(model: Model, on: np.ndarray, load: FloatArray, t: int, sign: float) -> None:
    """Add what one tensor costs; in a serial schedule, to the load of its first device."""
    here, reached = on[model.source[t]], signed(0)
    for r in range(model.first_reader[t], model.first_reader[t + 1]):
        reached |= signed(1) << on[model.reader[r]]
    if reached & ~(signed(1) << here):
        for d in range(len(load)):
            if model.kind == SERIAL:
                load[here] += sign * model.transfer_ms[t, here, d] * float(reached >> d & 1)
            elif d == here or reached >> d & 1:
                load[d] += sign * model.boundary_ms[t, d]


@inlined_part
def measure_loads(kind_of_model: int, load: FloatArray) -> tuple[float, float]:
    """Compute what the moves minimise, and the cost, in ms.

    Of loads that is a norm, so it pays to relieve any device that is nearly the fullest.
    """
    total, largest = 0.0, load[0]
    for d in range(len(load)):
        total += load[d]
        largest = max(largest, load[d])
    if kind_of_model == SERIAL:
        return total, total
    if largest <= 0.0:
        return 0.0, largest
    total = 0.0
    for d in range(len(load)):
        power = load[d] / largest
        for _ in range(SQUARINGS):
            power *= power
        total += power
    for _ in range(SQUARINGS):
        total = np.sqrt(total)
    return largest * total, largest


@inlined_part
def copy_loads(load: FloatArray, to: FloatArray) -> None:
    """Copy loads."""
    for d in range(len(load)):
        to[d] = load[d]


@kernel
def estimate_loads(model: Model, state: State) -> float:
    """Compute from the beginning what a placement costs, in ms; limits are ignored."""
    load, on = state.load, state.on
    for d in range(len(load)):
        load[d] = 0.0
    for i in range(len(on)):
        load[on[i]] += model.ms[i, on[i]]
    for t in range(len(model.source)):
        add_tensor(model, on, load, t, 1.0)
    return measure_loads(model.kind, load)[1]


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
    """Make moves where the cost is a sum or the largest load; see ``advance_list``."""
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
