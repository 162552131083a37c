"""A list schedule that is kept up to date: finish times forward, tails backward.

Operators run in a fixed order, so a schedule is a set of longest paths: from the beginning to each
operator, and from each operator to the end (its tail). A change between two operators leaves the
paths before the first and the tails after the last as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from placement_gym.base.arrays import FloatArray
from placement_gym.solvers.search.model import BLOCK, Model, State

signed: Any = np.int64


@njit(cache=True, nogil=True, error_model="numpy")
def run_on(model: Model, state: State, begin: int, reach: int, device_free: FloatArray) -> int:
    """Compute ``finish`` and ``free`` from an operator on, until nothing differs from ``kept``.

    Args:
        model: Operators, of kind ``LIST``.
        state: All operators before ``begin`` have finish times.
        begin: Operator.
        reach: The last reader of what finishes at another time than before.
        device_free: (n_devices,) ms from which devices are free before ``begin``; changes.

    Returns:
        The first operator whose finish time was not computed.
    """
    unit_ms, first, maker, tensor = model.ms, model.first, model.maker, model.tensor
    transfer_ms, last_reader, on = model.transfer_ms, model.last_reader, state.on
    finish, kept, free, kept_free = state.finish, state.kept, state.free, state.kept_free
    n, n_devices = unit_ms.shape
    for i in range(begin, n):
        # nothing differs any more: no reader of a change is left, and devices are free as before
        if i % BLOCK == 0:
            same = i > reach
            for d in range(n_devices):
                free[i // BLOCK, d] = device_free[d]
                same = same and device_free[d] == kept_free[i // BLOCK, d]
            if same:
                return i
        here = on[i]
        ready = device_free[here]
        for r in range(first[i], first[i + 1]):
            m = maker[r]
            ready = max(ready, finish[m] + transfer_ms[tensor[r], on[m], here])
        finish[i] = ready + unit_ms[i, here]
        device_free[here] = finish[i] + model.gap_ms
        if finish[i] != kept[i]:
            reach = max(reach, signed(last_reader[i]))
    free[len(free) - 1] = device_free
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def measure_tails(model: Model, state: State, last: int, reach: int) -> None:
    """Compute ``tail`` and ``after`` from an operator back, until nothing changes.

    Args:
        model: Operators, of kind ``LIST``.
        state: A placement whose tails after ``last`` are right.
        last: Operator.
        reach: The first operator whose tail may change whatever the others' do.
    """
    unit_ms, first, maker, on = model.ms, model.first, model.maker, state.on
    first_made, first_reader, reader = model.first_made, model.first_reader, model.reader
    transfer_ms, tail, after = model.transfer_ms, state.tail, state.after
    n_devices = unit_ms.shape[1]

    # the next operator of each device, and whether its tail has changed
    block = last // BLOCK + 1
    follower, changed = after[block].copy(), np.zeros(n_devices, np.bool_)
    for i in range(min(block * BLOCK, len(on)) - 1, last, -1):
        follower[on[i]] = i

    for i in range(last, -1, -1):
        here = on[i]
        longest = model.gap_ms + tail[follower[here]]
        for t in range(first_made[i], first_made[i + 1]):
            for r in range(first_reader[t], first_reader[t + 1]):
                j = reader[r]
                longest = max(longest, transfer_ms[t, here, on[j]] + tail[j])
        longest += unit_ms[i, here]
        follower[here], changed[here] = i, longest != tail[i]
        if longest != tail[i]:
            tail[i] = longest
            for r in range(first[i], first[i + 1]):
                reach = min(reach, signed(maker[r]))
        # nothing changes any more: no maker of a change is left, and devices go on as before
        if i % BLOCK == 0:
            same = i <= reach
            for d in range(n_devices):
                same = same and after[i // BLOCK, d] == follower[d] and not changed[d]
                after[i // BLOCK, d] = follower[d]
            if same:
                return
