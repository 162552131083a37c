"""Estimates of a placement after a move, exact in the model and computed from what has changed."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.arrays import FloatArray, Int32, UInt8
from placement_gym.solvers.search.model import (
    BLOCK,
    LIST,
    LOAD,
    SERIAL,
    UPDATES,
    Layout,
    Model,
    State,
)
from placement_gym.solvers.search.rebuild import count


@njit(cache=True, nogil=True)
def estimate_all(model: Model, layout: Layout, state: State) -> float:
    """The cost of the state's placement in ms, from the beginning; limits are ignored."""
    for i in range(len(state.on)):
        state.on[i] = state.place[model.unit[i]]
    count(layout, state)
    if model.kind == LIST:
        state.free[0] = 0.0
        ms = run_list(model, state.on, state.finish, state.free, 0, np.inf)
        keep_list(state, 0)
        return ms
    state.load[:] = 0.0
    for i in range(len(state.on)):
        state.load[state.on[i]] += model.ms[i, state.on[i]]
    for t in range(len(model.source)):
        add_tensor(model, state, t, 1.0)
    return summarize(model, state)


@njit(cache=True, nogil=True)
def summarize(model: Model, state: State) -> float:
    """The sum of a serial schedule, or the largest load."""
    return state.load.sum() if model.kind == SERIAL else state.load.max()


@njit(cache=True, nogil=True, error_model="numpy")
def run_list(
    model: Model, on: UInt8, finish: FloatArray, free: FloatArray, begin: int, limit_ms: float
) -> float:
    """Run a list schedule from a block on; infinite once it must end after ``limit_ms``.

    The same additions in the same order as ``schedules.list.list_makespan``.

    Args:
        model: Operators.
        on: (n,) devices.
        finish: (n,) ms, written from the block on.
        free: (n_blocks, n_devices) ms, read at the block and written after it.
        begin: Number of the block.
        limit_ms: Of a placement that is of interest.
    """
    ms, transfer_ms, tail_ms = model.ms, model.transfer_ms, model.tail_ms
    first, maker, tensor = model.first, model.maker, model.tensor
    n, n_devices = ms.shape
    now = free[begin].copy()
    for i in range(begin * BLOCK, n):
        if i % BLOCK == 0:
            for d in range(n_devices):
                free[i // BLOCK, d] = now[d]
        here = on[i]
        ready = now[here]
        for r in range(first[i], first[i + 1]):
            m = maker[r]
            ready = max(ready, finish[m] + transfer_ms[tensor[r], on[m], here])
        end = ready + ms[i, here]
        finish[i] = end
        now[here] = end + model.gap_ms
        if end + tail_ms[i] > limit_ms:
            finish[i + 1 : (i // BLOCK + 1) * BLOCK] = end
            return np.inf
    return now.max()


@njit(cache=True, nogil=True)
def keep_list(state: State, begin: int) -> None:
    """Keep the times of a list schedule from a block on, to which rejected moves return."""
    state.kept[begin * BLOCK :] = state.finish[begin * BLOCK :]
    state.kept_free[begin:] = state.free[begin:]


@njit(cache=True, nogil=True)
def restore_list(state: State, begin: int) -> None:
    """Undo ``run_list`` from a block on."""
    state.finish[begin * BLOCK :] = state.kept[begin * BLOCK :]
    state.free[begin:] = state.kept_free[begin:]


@njit(cache=True, nogil=True)
def add_tensor(model: Model, state: State, t: int, sign: float) -> None:
    """Add the transfers of a tensor to the loads, or take them away."""
    on, n_devices = state.on, model.ms.shape[1]
    here = on[model.source[t]]
    reached = 0
    for r in range(model.first_reader[t], model.first_reader[t + 1]):
        reached |= 1 << on[model.reader[r]]
    if reached | 1 << here == 1 << here:
        return
    for d in range(n_devices):
        if model.kind == SERIAL and reached >> d & 1:
            state.load[here] += sign * model.transfer_ms[t, here, d]
        elif model.kind == LOAD and (reached | 1 << here) >> d & 1:
            state.load[d] += sign * model.boundary_ms[t, d]


@njit(cache=True, nogil=True)
def estimate_move(model: Model, layout: Layout, state: State, n_moved: int, limit_ms: float) -> float:
    """The cost after a move in ms, or infinity if it exceeds a limit; see ``undo_estimate``.

    Args:
        model: Operators; its kind is not ``SIMULATED``.
        layout: Units.
        state: With the move in ``place`` and not yet in ``on``.
        n_moved: Number of units in ``moved``.
        limit_ms: Of a placement that is of interest.
    """
    if model.kind != LIST:
        update_loads(model, layout, state, n_moved, -1.0)
        set_operators(layout, state, n_moved)
        update_loads(model, layout, state, n_moved, 1.0)
        return summarize(model, state)
    begin = find_first_block(layout, state, n_moved)
    set_operators(layout, state, n_moved)
    return run_list(model, state.on, state.finish, state.free, begin, limit_ms)


@njit(cache=True, nogil=True)
def keep_estimate(model: Model, layout: Layout, state: State, n_moved: int) -> None:
    """Take in the times of an accepted move."""
    if model.kind == LIST:
        keep_list(state, find_first_block(layout, state, n_moved))


@njit(cache=True, nogil=True)
def undo_estimate(model: Model, layout: Layout, state: State, n_moved: int) -> None:
    """Return to the times before a move, whose units are back in ``place``."""
    if model.kind == LIST:
        set_operators(layout, state, n_moved)
        restore_list(state, find_first_block(layout, state, n_moved))
        return
    update_loads(model, layout, state, n_moved, -1.0)
    set_operators(layout, state, n_moved)
    update_loads(model, layout, state, n_moved, 1.0)


@njit(cache=True, nogil=True)
def find_first_block(layout: Layout, state: State, n_moved: int) -> int:
    """The block of the first operator that moves."""
    lowest = len(state.on)
    for k in range(n_moved):
        lowest = min(lowest, layout.ops[layout.first_op[state.moved[k]]])
    return lowest // BLOCK


@njit(cache=True, nogil=True)
def set_operators(layout: Layout, state: State, n_moved: int) -> None:
    """Write the devices of moved units to their operators."""
    for k in range(n_moved):
        u = state.moved[k]
        for at in range(layout.first_op[u], layout.first_op[u + 1]):
            state.on[layout.ops[at]] = state.place[u]


@njit(cache=True, nogil=True)
def update_loads(model: Model, layout: Layout, state: State, n_moved: int, sign: float) -> None:
    """Add what moved units and their tensors cost to the loads, or take it away."""
    state.numbers[UPDATES] += 1.0
    now = np.int32(state.numbers[UPDATES])
    for k in range(n_moved):
        u = state.moved[k]
        for at in range(layout.first_op[u], layout.first_op[u + 1]):
            i = layout.ops[at]
            state.load[state.on[i]] += sign * model.ms[i, state.on[i]]
            for t in range(model.first_made[i], model.first_made[i + 1]):
                if state.stamp[t] != now:
                    state.stamp[t] = now
                    add_tensor(model, state, t, sign)
            for r in range(model.first[i], model.first[i + 1]):
                t = model.tensor[r]
                if state.stamp[t] != now:
                    state.stamp[t] = now
                    add_tensor(model, state, t, sign)
