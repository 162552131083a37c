"""Moves: changes of a placement that keep neighbouring units together and respect its limits."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.solvers.search.model import (
    LIST,
    MOVES,
    N_CRITICAL,
    Layout,
    Model,
    State,
)
from placement_gym.solvers.search.rebuild import rebuild

UNIT, RUN, STRETCH, REGION, SWAP, REBUILD = range(6)
"""Kinds: a unit; a run of consecutive units of one device, or part of it; a stretch of the order; a
unit and units around it; two units that change places; a stretch that is placed anew, one unit
after another."""
N_KINDS = 6
CRITICAL = 0.5
"""Share of moves whose first unit is on a longest chain of the schedule."""
REFRESH = 64
"""Moves after which that chain is found again."""
ADOPT = 0.5
"""Share of moves to the device of a linked unit, where that is another one."""
RETURN = 0.7
"""Share of ejected units that go to where the moved units came from."""
EJECTIONS = 12
"""Attempts to make room on a full device."""


@njit(cache=True, nogil=True)
def propose(
    model: Model, layout: Layout, state: State, rng: np.random.Generator, kind: int
) -> int:
    """Change the state's placement; returns how many units moved, 0 if the move is not possible.

    Args:
        model: Operators.
        layout: Units.
        state: ``place``, ``used``, ``moved`` and ``was`` change; see ``undo``.
        rng: Source of random numbers.
        kind: Of the move.
    """
    n_devices = layout.possible.shape[1]
    state.numbers[MOVES] += 1.0
    if n_devices < 2:
        return 0
    u = choose_unit(model, layout, state, rng)
    if kind == REBUILD:
        length = draw_length(rng, len(state.place))
        begin = min(max(layout.rank[u] - rng.integers(0, length), 0), len(state.place) - length)
        return rebuild(model, layout, state, rng, begin, length)
    n_moved = 0
    here, there = state.place[u], choose_device(layout, state, rng, u)
    if there == here:
        return 0
    if kind == UNIT:
        n_moved = move(layout, state, n_moved, u, there)
    elif kind == RUN:
        n_moved = move_run(layout, state, rng, u, there)
    elif kind == STRETCH:
        length = draw_length(rng, len(state.place))
        begin = max(layout.rank[u] - rng.integers(0, length), 0)
        for at in range(begin, min(begin + length, len(state.place))):
            n_moved = move(layout, state, n_moved, layout.order[at], there)
    elif kind == REGION:
        n_moved = move_region(layout, state, rng, u, there)
    else:
        n_moved = swap(layout, state, rng, u, there)
    return make_room(layout, state, rng, n_moved, here)


@njit(cache=True, nogil=True)
def draw_length(rng: np.random.Generator, most: int) -> int:
    """A number of units that is a power of two with a random factor, up to half of them."""
    length = 1 << rng.integers(0, 20)
    while length > max(most // 2, 1):
        length = 1 << rng.integers(0, 20)
    return min(length + rng.integers(0, length), most)


@njit(cache=True, nogil=True)
def choose_unit(model: Model, layout: Layout, state: State, rng: np.random.Generator) -> int:
    """A random unit, often of a longest chain."""
    if model.kind == LIST:
        if state.numbers[MOVES] % REFRESH == 1.0:
            trace(model, state)
        if rng.random() < CRITICAL:
            return state.critical[rng.integers(0, int(state.numbers[N_CRITICAL]))]
    return rng.integers(0, len(state.place))


@njit(cache=True, nogil=True)
def trace(model: Model, state: State) -> None:
    """Find the units of a chain of operators that determines when the schedule ends."""
    i, count = 0, 0
    for j in range(len(state.on)):
        if state.kept[j] > state.kept[i]:
            i = j
    while i >= 0 and count < len(state.critical):
        u = model.unit[i]
        if count == 0 or state.critical[count - 1] != u:
            state.critical[count] = u
            count += 1
        here, latest, before = state.on[i], 0.0, -1
        for r in range(model.first[i], model.first[i + 1]):
            m = model.maker[r]
            arrival = state.kept[m] + model.transfer_ms[model.tensor[r], state.on[m], here]
            if arrival >= latest:
                latest, before = arrival, m
        j = i - 1
        while j >= 0 and state.on[j] != here:
            j -= 1
        i = j if j >= 0 and state.kept[j] + model.gap_ms >= latest else before
    state.numbers[N_CRITICAL] = count


@njit(cache=True, nogil=True)
def choose_device(layout: Layout, state: State, rng: np.random.Generator, u: int) -> int:
    """Another device that may hold a unit, often that of a linked unit; its own if there is none."""
    here, n_devices = state.place[u], layout.possible.shape[1]
    n_links = layout.first_link[u + 1] - layout.first_link[u]
    if n_links and rng.random() < ADOPT:
        there = state.place[layout.link[layout.first_link[u] + rng.integers(0, n_links)]]
        if there != here and layout.possible[u, there]:
            return there
    shift = rng.integers(1, n_devices)
    for k in range(n_devices - 1):
        there = (here + 1 + (shift + k) % (n_devices - 1)) % n_devices
        if layout.possible[u, there]:
            return there
    return here


@njit(cache=True, nogil=True)
def move(layout: Layout, state: State, n_moved: int, u: int, there: int) -> int:
    """Move a unit if the device may hold it and it has not moved yet; returns the new count."""
    here, now = state.place[u], np.int32(state.numbers[MOVES])
    if here == there or state.marked[u] == now or not layout.possible[u, there]:
        return n_moved
    state.marked[u] = now
    state.moved[n_moved], state.was[n_moved] = u, here
    state.place[u] = there
    for g in range(len(layout.limit)):
        state.used[g] += layout.size[u] * (
            int(layout.member[g, there]) - int(layout.member[g, here])
        )
    return n_moved + 1


@njit(cache=True, nogil=True)
def undo(layout: Layout, state: State, n_moved: int) -> None:
    """Put moved units back in ``place`` and ``used``."""
    for k in range(n_moved):
        u, here = state.moved[k], state.was[k]
        for g in range(len(layout.limit)):
            state.used[g] += layout.size[u] * (
                int(layout.member[g, here]) - int(layout.member[g, state.place[u]])
            )
        state.place[u] = here


@njit(cache=True, nogil=True)
def move_run(
    layout: Layout, state: State, rng: np.random.Generator, u: int, there: int
) -> int:
    """Move the run of a unit, or a random end of it up to the unit."""
    here, at, n = state.place[u], layout.rank[u], len(state.place)
    n_moved, side = 0, rng.integers(0, 3)
    end = at
    while side != 0 and end + 1 < n and state.place[layout.order[end + 1]] == here:
        end += 1
    while side != 1 and at > 0 and state.place[layout.order[at - 1]] == here:
        at -= 1
    for k in range(at, end + 1):
        n_moved = move(layout, state, n_moved, layout.order[k], there)
    return n_moved


@njit(cache=True, nogil=True)
def move_region(
    layout: Layout, state: State, rng: np.random.Generator, u: int, there: int
) -> int:
    """Move a unit and units of its device that links connect with it, nearest first."""
    here, wanted = state.place[u], draw_length(rng, min(len(state.place), 512))
    n_moved, done = move(layout, state, 0, u, there), 0
    while done < n_moved and n_moved < wanted:
        v = state.moved[done]
        for at in range(layout.first_link[v], layout.first_link[v + 1]):
            w = layout.link[at]
            if n_moved < wanted and state.place[w] == here:
                n_moved = move(layout, state, n_moved, w, there)
        done += 1
    return n_moved


@njit(cache=True, nogil=True)
def swap(layout: Layout, state: State, rng: np.random.Generator, u: int, there: int) -> int:
    """Let a unit change places with one of another device, near it in the order or anywhere."""
    here, n = state.place[u], len(state.place)
    n_moved = move(layout, state, 0, u, there)
    at = layout.rank[u] if rng.random() < 0.5 else rng.integers(0, n)
    step = 1 if rng.random() < 0.5 else n - 1
    for _ in range(min(n, 256)):
        at = (at + step) % n
        v = layout.order[at]
        if state.place[v] == there and v != u:
            return move(layout, state, n_moved, v, here)
    return n_moved


@njit(cache=True, nogil=True)
def make_room(
    layout: Layout, state: State, rng: np.random.Generator, n_moved: int, origin: int
) -> int:
    """Eject consecutive units from devices that are too full; undoes the move if that fails.

    Args:
        layout: Units.
        state: After a move.
        rng: Source of random numbers.
        n_moved: Units that have moved so far.
        origin: Where they came from, which has room now.

    Returns:
        The number of units that have moved, 0 if there is no room.
    """
    n, n_devices = len(state.place), layout.possible.shape[1]
    for g in range(len(layout.limit)):
        attempts = 0
        while state.used[g] > layout.limit[g] and attempts < EJECTIONS:
            attempts += 1
            there = origin if rng.random() < RETURN else rng.integers(0, n_devices)
            if layout.member[g, there]:
                continue
            at = rng.integers(0, n)
            for _ in range(min(n, 1024)):
                if state.used[g] <= layout.limit[g]:
                    break
                u = layout.order[at]
                at = (at + 1) % n
                if layout.size[u] > 0.0 and layout.member[g, state.place[u]]:
                    if has_room(layout, state, u, there):
                        n_moved = move(layout, state, n_moved, u, there)
        if state.used[g] > layout.limit[g]:
            undo(layout, state, n_moved)
            return 0
    for g in range(len(layout.limit)):
        if state.used[g] > layout.limit[g]:
            undo(layout, state, n_moved)
            return 0
    return n_moved


@njit(cache=True, nogil=True)
def has_room(layout: Layout, state: State, u: int, there: int) -> bool:
    """Whether no limit is exceeded if a unit is added to a device."""
    for g in range(len(layout.limit)):
        if layout.member[g, there] and state.used[g] + layout.size[u] > layout.limit[g]:
            return False
    return True
