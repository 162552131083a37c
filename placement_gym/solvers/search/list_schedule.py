"""A list schedule, and sums of loads, that are updated while units move.

Operators run in a fixed order, so a schedule is a set of longest paths: from the beginning to each
operator, and from each operator to the end (its tail). A change between two operators keeps the
paths before the first and the tails after the last.
"""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, inlined_part, kernel, signed
from placement_gym.solvers.search.model import BLOCK, SERIAL, Layout, Model, State

ROUNDING = 1.0 + 1e-9
"""Of sums that were added up in another order."""


@inlined_part
def run_until_same(
    model: Model, state: State, begin: int, reach: int, device_free: FloatArray
) -> int:
    """Compute ``finish`` and ``free`` from an operator on, until nothing differs from ``kept``.

    Earlier operators have run, and devices are free from ``device_free`` on; ``reach`` is the last
    reader of a changed operator. Returns the first operator whose finish was not computed.
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
    return n


@inlined_part
def run_on(model: Model, state: State, begin: int, reach: int, device_free: FloatArray) -> int:
    """Run operators as ``run_until_same`` does, and record when devices are free at the end."""
    reached = run_until_same(model, state, begin, reach, device_free)
    free = state.free
    for d in range(len(device_free) if reached == len(state.on) else 0):
        free[len(free) - 1, d] = device_free[d]
    return reached


@inlined_part
def measure_tails(model: Model, state: State, last: int, reach: int) -> None:
    """Compute ``tail`` and ``after`` from an operator back, until nothing changes.

    Later tails are right; ``reach`` is the first operator whose tail may change even if the others'
    do not.
    """
    unit_ms, first, maker, on = model.ms, model.first, model.maker, state.on
    first_made, first_reader, reader = model.first_made, model.first_reader, model.reader
    transfer_ms, tail, after = model.transfer_ms, state.tail, state.after
    n_devices = unit_ms.shape[1]

    # the next operator of each device, and whether its tail has changed
    block, follower, changed = last // BLOCK + 1, state.follower, state.changed
    for d in range(n_devices):
        follower[d], changed[d] = after[block, d], False
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
        # nothing changes any more: no maker of a change is left, and devices continue as before
        if i % BLOCK == 0:
            same = i <= reach
            for d in range(n_devices):
                same = same and after[i // BLOCK, d] == follower[d] and not changed[d]
                after[i // BLOCK, d] = follower[d]
            if same:
                return


@kernel
def estimate_list(model: Model, state: State) -> float:
    """Compute the cost of a placement in ms from the beginning; limits are ignored."""
    n, n_devices = model.ms.shape
    device_free = state.device_free
    for d in range(n_devices):
        device_free[d] = 0.0
    run_on(model, state, signed(0), n, device_free)
    copy_schedule(state.finish, state.free, state.kept, state.kept_free, signed(0), n)
    measure_tails(model, state, n - 1, signed(-1))
    return find_makespan(state)


@inlined_part
def find_makespan(state: State) -> float:
    """Find when the last device is free, in ms."""
    free, final = state.free, len(state.free) - 1
    latest = free[final, 0]
    for d in range(free.shape[1]):
        latest = max(latest, free[final, d])
    return latest


@inlined_part
def run_span(
    model: Model, state: State, lowest: int, last: int, limit_ms: float
) -> tuple[bool, int, int]:
    """Run the operators from the first to the last that moved, until it must end too late.

    Returns whether it may end within the limit, the first operator that was not run, and the last
    reader of a changed one.
    """
    ms, first, maker, tensor = model.ms, model.first, model.maker, model.tensor
    unit, transfer_ms, last_reader, on = model.unit, model.transfer_ms, model.last_reader, state.on
    finish, kept, free, marked = state.finish, state.kept, state.free, state.marked
    device_free, tail_ms, n_devices = state.device_free, model.tail_ms, ms.shape[1]
    reach, now = signed(-1), state.scalars.n_moves
    for i in range(lowest, last + 1):
        if i % BLOCK == 0:
            for d in range(n_devices):
                free[i // BLOCK, d] = device_free[d]
        here = on[i]
        ready = device_free[here]
        for r in range(first[i], first[i + 1]):
            m = maker[r]
            ready = max(ready, finish[m] + transfer_ms[tensor[r], on[m], here])
        ready += ms[i, here]
        finish[i] = ready
        device_free[here] = ready + model.gap_ms
        if ready + tail_ms[i] > limit_ms:
            return False, i + 1, reach
        if finish[i] != kept[i] or marked[unit[i]] == now:
            reach = max(reach, signed(last_reader[i]))
    return True, last + 1, reach


@inlined_part
def free_devices(model: Model, state: State, lowest: int) -> None:
    """Set ``device_free`` to when devices were free before an operator."""
    kept, kept_free, on, gap_ms = state.kept, state.kept_free, state.on, model.gap_ms
    device_free, block = state.device_free, lowest // BLOCK
    for d in range(len(device_free)):
        device_free[d] = kept_free[block, d]
    for i in range(block * BLOCK, lowest):
        device_free[on[i]] = kept[i] + gap_ms


@inlined_part
def may_devices_end(state: State, last: int, limit_ms: float) -> bool:
    """Tell if each device's next operator begins early enough for its unchanged tail."""
    on, tail, after, device_free = state.on, state.tail, state.after, state.device_free
    following = last // BLOCK + 1
    end = min(following * BLOCK, len(on))
    for d in range(len(device_free)):
        j = last + 1
        while j < end and on[j] != d:
            j += 1
        j = j if j < end else signed(after[following, d])
        if device_free[d] + tail[j] > limit_ms * ROUNDING:
            return False
    return True


@inlined_part
def may_readers_end(model: Model, state: State, lowest: int, last: int, limit_ms: float) -> bool:
    """Tell if all readers of the span begin early enough."""
    first_made, first_reader, reader = model.first_made, model.first_reader, model.reader
    transfer_ms, last_reader, on = model.transfer_ms, model.last_reader, state.on
    finish, tail, latest_ms = state.finish, state.tail, limit_ms * ROUNDING
    for i in range(lowest, last + 1):
        if last_reader[i] > last:
            for t in range(first_made[i], first_made[i + 1]):
                for r in range(first_reader[t], first_reader[t + 1]):
                    j = reader[r]
                    if j > last and finish[i] + transfer_ms[t, on[i], on[j]] + tail[j] > latest_ms:
                        return False
    return True


@inlined_part
def copy_schedule(
    finish: FloatArray,
    free: FloatArray,
    finish_to: FloatArray,
    free_to: FloatArray,
    lowest: int,
    reached: int,
) -> None:
    """Copy a schedule from an operator on, up to the first that is the same in both."""
    for i in range(lowest, reached):
        finish_to[i] = finish[i]
    for block in range(lowest // BLOCK, min(reached // BLOCK + 2, len(free))):
        for d in range(free.shape[1]):
            free_to[block, d] = free[block, d]


@inlined_part
def find_reach(model: Model, layout: Layout, state: State, n_moved: int, lowest: int) -> int:
    """Find the first operator from which moved units read."""
    first_op, ops, first = layout.first_op, layout.ops, model.first
    reach = lowest
    for k in range(n_moved):
        u = state.moved[k]
        for at in range(first_op[u], first_op[u + 1]):
            i = signed(ops[at])
            for r in range(first[i], first[i + 1]):
                reach = min(reach, signed(model.maker[r]))
    return reach


@inlined_part
def note_critical(model: Model, state: State) -> None:
    """List the units of longest chains of the schedule."""
    kept, tail, on, unit, critical = state.kept, state.tail, state.on, model.unit, state.critical
    n_units = len(state.place)
    count, total_ms = 0, 0.0
    for d in range(model.ms.shape[1]):
        total_ms = max(total_ms, state.kept_free[len(state.kept_free) - 1, d])
    for i in range(len(on)):
        length = kept[i] - model.ms[i, on[i]] + tail[i]
        if length * ROUNDING >= total_ms and (count == 0 or critical[count - 1] != unit[i]):
            critical[count % n_units] = unit[i]
            count += 1
    state.scalars.n_critical = min(count, n_units)


SQUARINGS = 5
"""Loads are summed with the exponent 2 to this power."""


@inlined_part
def add_loads(model: Model, layout: Layout, state: State, n_moved: int, sign: float) -> None:
    """Add the cost of moved units and their tensors, or subtract it."""
    scalars, on, ops, first_op = state.scalars, state.on, layout.ops, layout.first_op
    first, first_made, stamp = model.first, model.first_made, state.stamp
    scalars.n_updates += 1
    now = scalars.n_updates
    # a tensor counts once, even if several of its operators have moved: hence the stamps
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
    """Add the cost of a tensor; in a serial schedule, to the load of its first device."""
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
    """Compute the objective of the moves and the cost, in ms.

    For loads the objective is a norm, so it pays to relieve any device that is nearly the fullest.
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
    for d in range(len(load)):
        to[d] = load[d]


@kernel
def estimate_loads(model: Model, state: State) -> float:
    """Compute the cost of a placement in ms from the beginning; limits are ignored."""
    load, on = state.load, state.on
    for d in range(len(load)):
        load[d] = 0.0
    for i in range(len(on)):
        load[on[i]] += model.ms[i, on[i]]
    for t in range(len(model.source)):
        add_tensor(model, on, load, t, 1.0)
    return measure_loads(model.kind, load)[1]
