"""Sums that moves keep up to date: of a serial schedule, and the loads of a pipeline."""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, inlined_part, kernel, signed
from placement_gym.solvers.search.model import SERIAL, Layout, Model, State

SQUARINGS = 5
"""Loads are summed with the exponent 2 to this power."""


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

    Of loads that is a norm, so that it pays to relieve any device that is nearly the fullest.
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
