"""A list schedule that is kept up to date while units move, and moves under it.

Operators run in a fixed order, so a schedule is a set of longest paths: from the beginning to each
operator, and from each operator to the end (its tail). A change between two operators leaves the
paths before the first and the tails after the last as they are.
"""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, inlined_part, kernel, signed
from placement_gym.solvers.search.model import BLOCK, Layout, Model, State
from placement_gym.solvers.search.moves import (
    draw_limit,
    keep_limits,
    note_best,
    put_back,
    set_operators,
)
from placement_gym.solvers.search.proposals import REFRESH, propose

ROUNDING = 1.0 + 1e-9
"""Of sums that were added up in another order."""


@inlined_part
def run_on(model: Model, state: State, begin: int, reach: int) -> int:
    """Compute ``finish`` and ``free`` from an operator on, until nothing differs from ``kept``.

    The operators before it have run; ``reach`` is the last reader of what finishes at another time
    than before. Returns the first operator whose finish time was not computed.
    """
    unit_ms, first, maker, tensor = model.ms, model.first, model.maker, model.tensor
    transfer_ms, last_reader, on = model.transfer_ms, model.last_reader, state.on
    finish, kept, free, kept_free = state.finish, state.kept, state.free, state.kept_free
    (n, n_devices), device_free = unit_ms.shape, state.device_free
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
    for d in range(n_devices):
        free[len(free) - 1, d] = device_free[d]
    return n


@inlined_part
def measure_tails(model: Model, state: State, last: int, reach: int) -> None:
    """Compute ``tail`` and ``after`` from an operator back, until nothing changes.

    The tails after it are right; ``reach`` is the first operator whose tail may change whatever the
    others' do.
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
    """Compute from the beginning what a placement costs, in ms; limits are ignored."""
    n, n_devices = model.ms.shape
    for d in range(n_devices):
        state.device_free[d] = 0.0
    run_on(model, state, signed(0), n)
    copy_schedule(state.finish, state.free, state.kept, state.kept_free, signed(0), n)
    measure_tails(model, state, n - 1, signed(-1))
    return find_makespan(state.free)


@inlined_part
def find_makespan(free: FloatArray) -> float:
    """Find when the last device is free, in ms."""
    final = len(free) - 1
    latest = free[final, 0]
    for d in range(free.shape[1]):
        latest = max(latest, free[final, d])
    return latest


@inlined_part
def run_span(
    model: Model, state: State, lowest: int, last: int, limit_ms: float
) -> tuple[bool, int, int]:
    """Run the operators from the first to the last that moved, until it must end too late.

    Returns whether it may end within the limit; the first operator that was not run; and the last
    reader of what changes.
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
    """Tell if each device's next operator begins early enough, as what follows takes as long as
    before.
    """
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
    """Tell if what reads from the span begins early enough."""
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
    n_units, count, total_ms = len(state.place), 0, find_makespan(state.kept_free)
    for i in range(len(on)):
        length = kept[i] - model.ms[i, on[i]] + tail[i]
        if length * ROUNDING >= total_ms and (count == 0 or critical[count - 1] != unit[i]):
            critical[count % n_units] = unit[i]
            count += 1
    state.scalars.n_critical = min(count, n_units)


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
            reached = run_on(model, state, last + 1, reach)
            cost = find_makespan(state.free)

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
