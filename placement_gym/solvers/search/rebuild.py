"""Placing a stretch of units again, one after another: list scheduling from the middle on."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.arrays import FloatArray
from placement_gym.solvers.search.model import (
    BLOCK,
    LIST,
    LOAD,
    MOVES,
    PRICE,
    Layout,
    Model,
    State,
)

INHERIT = 0.8
"""Share of rebuilds whose price of memory is near that of the placement."""
NOISY = 0.7
"""Share of rebuilds in which devices have random tastes."""


@njit(cache=True, nogil=True, error_model="numpy")
def rebuild(
    model: Model, layout: Layout, state: State, rng: np.random.Generator, begin: int, length: int
) -> int:
    """Take consecutive units from their devices and place them where each finishes first.

    Where operators take turns, they go where they and their readings cost least. A byte of a
    limited device has a price, and devices have random tastes, constant over runs of operators, so
    that repeated calls differ.

    Args:
        model: Operators.
        layout: Units.
        state: At the placement that changes.
        rng: Source of random numbers.
        begin: First unit in ``Layout.order``.
        length: Number of units.

    Returns:
        How many units are elsewhere now, 0 if some unit found no room; see ``moves.propose``.
    """
    n_devices = layout.possible.shape[1]
    release(layout, state, begin, length)
    low = layout.ops[layout.first_op[layout.order[begin]]]
    i = low // BLOCK * BLOCK if model.kind == LIST else low
    free = np.zeros(n_devices)
    if model.kind == LIST:
        free[:] = state.kept_free[i // BLOCK]
    elif model.kind == LOAD:
        free[:] = state.load
    price = layout.gain * draw_price(rng, state)
    lasting = 1.0 / (1 << rng.integers(0, 9))
    strength = 0.0
    if rng.random() < NOISY:
        strength = rng.random() * (1 << rng.integers(0, 6)) * model.ms.mean()
    taste, left, found = np.zeros(n_devices), length, True
    while left > 0 and found:
        v = model.unit[i]
        chooses = begin <= layout.rank[v] < begin + length
        if chooses and layout.ops[layout.first_op[v]] == i:
            left -= 1
            if rng.random() < lasting:
                for d in range(n_devices):
                    taste[d] = strength * rng.random()
            found = choose_first(model, layout, state, free, taste, price, i)
        here = state.place[v]
        state.on[i] = here
        if model.kind == LIST:
            end = finish_on(model, state, free[here], i, here)
            state.finish[i], free[here] = end, end + model.gap_ms
        elif model.kind == LOAD and chooses:
            free[here] += model.ms[i, here]
        i += 1
    return settle(model, layout, state, low, length, found)


@njit(cache=True, nogil=True)
def release(layout: Layout, state: State, begin: int, length: int) -> None:
    """List units as moved, and take their bytes from their devices."""
    for k in range(length):
        v = layout.order[begin + k]
        state.moved[k], state.was[k] = v, state.place[v]
        state.marked[v] = np.int32(state.numbers[MOVES])
        for g in range(len(layout.limit)):
            if layout.member[g, state.place[v]]:
                state.used[g] -= layout.size[v]


@njit(cache=True, nogil=True)
def draw_price(rng: np.random.Generator, state: State) -> float:
    """A price of memory, near that of the placement or any; the placement takes it over."""
    if state.numbers[PRICE] > 0.0 and rng.random() < INHERIT:
        state.numbers[PRICE] *= 0.7 + 0.7 * rng.random()
    else:
        state.numbers[PRICE] = (0.5 + rng.random()) * (1 << rng.integers(0, 12)) / 256.0
    return state.numbers[PRICE]


@njit(cache=True, nogil=True, error_model="numpy")
def finish_on(model: Model, state: State, free_ms: float, i: int, here: int) -> float:
    """When an operator finishes on a device in a list schedule."""
    ready = free_ms
    for r in range(model.first[i], model.first[i + 1]):
        m = model.maker[r]
        arrival = state.finish[m] + model.transfer_ms[model.tensor[r], state.on[m], here]
        ready = max(ready, arrival)
    return ready + model.ms[i, here]


@njit(cache=True, nogil=True, error_model="numpy")
def choose_first(
    model: Model,
    layout: Layout,
    state: State,
    free: FloatArray,
    taste: FloatArray,
    price: float,
    i: int,
) -> bool:
    """Place the unit of its first operator; returns whether a device has room for it."""
    v, cheapest, least = model.unit[i], -1, np.inf
    for d in range(len(free)):
        if not layout.possible[v, d]:
            continue
        score, fits = taste[d], True
        for g in range(len(layout.limit)):
            if layout.member[g, d]:
                fits = fits and state.used[g] + layout.size[v] <= layout.limit[g]
                score += price * layout.size[v]
        if model.kind == LIST:
            score += finish_on(model, state, free[d], i, d)
        else:
            score += model.ms[i, d] + free[d]
            for r in range(model.first[i], model.first[i + 1]):
                score += model.transfer_ms[model.tensor[r], state.on[model.maker[r]], d]
        if fits and score < least:
            cheapest, least = d, score
    if cheapest < 0:
        return False
    state.place[v] = cheapest
    for g in range(len(layout.limit)):
        if layout.member[g, cheapest]:
            state.used[g] += layout.size[v]
    return True


@njit(cache=True, nogil=True)
def settle(
    model: Model, layout: Layout, state: State, low: int, length: int, found: bool
) -> int:
    """List the units that are elsewhere, or undo everything; operators return to where they were.

    A unit of which only later operators were reached keeps them where the estimate expects them.
    """
    n_moved = 0
    for k in range(length):
        v, was = state.moved[k], state.was[k]
        for at in range(layout.first_op[v], layout.first_op[v + 1]):
            state.on[layout.ops[at]] = was
        if not found:
            state.place[v] = was
        elif state.place[v] != was:
            state.moved[n_moved], state.was[n_moved] = v, was
            n_moved += 1
    if not found:
        count(layout, state)
        state.finish[low:] = state.kept[low:]
    return n_moved


@njit(cache=True, nogil=True)
def count(layout: Layout, state: State) -> None:
    """Count the bytes on limited devices."""
    state.used[:] = 0.0
    for g in range(len(layout.limit)):
        for u in range(len(state.place)):
            if layout.member[g, state.place[u]]:
                state.used[g] += layout.size[u]
