"""Placing a stretch of units again, one after another: list scheduling from the middle on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

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

signed: Any = np.int64
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
        How many units are elsewhere now: ``moved`` and ``was`` list them. 0 if some unit found no
        room; then nothing has changed.
    """
    # unpacked once: numba counts references to a tuple's arrays at every call
    unit, ms, first, maker, tensor = model.unit, model.ms, model.first, model.maker, model.tensor
    transfer_ms, gap_ms, overlaps = model.transfer_ms, model.gap_ms, model.overlaps
    first_op, ops, order, rank = layout.first_op, layout.ops, layout.order, layout.rank
    possible, size, member, limit = layout.possible, layout.size, layout.member, layout.limit
    place, on, used, finish = state.place, state.on, state.used, state.finish
    moved, was, numbers = state.moved, state.was, state.numbers
    n_groups, n_devices = member.shape

    def hold(u: int, here: int, sign: float) -> None:
        for g in range(n_groups):
            used[g] += sign * size[u] * member[g, here]

    # the units leave their devices
    for k in range(length):
        u = order[begin + k]
        moved[k], was[k], state.marked[u] = u, place[u], np.int32(numbers[MOVES])
        hold(u, place[u], -1.0)

    # a price of memory, near that of the placement or any; and how strong and lasting tastes are
    if numbers[PRICE] > 0.0 and rng.random() < INHERIT:
        numbers[PRICE] *= 0.7 + 0.7 * rng.random()
    else:
        numbers[PRICE] = (0.5 + rng.random()) * (1 << int(rng.random() * 12)) / 256.0
    price = layout.gain * numbers[PRICE]
    lasting, strength = 1.0 / (1 << int(rng.random() * 9)), 0.0
    if rng.random() < NOISY:
        strength = rng.random() * (1 << int(rng.random() * 6)) * ms.mean()
    taste = np.zeros(n_devices)

    # where the schedule stands before the first operator; loads are those of all other units
    low = ops[first_op[order[begin]]]
    i, free = signed(low), np.zeros(n_devices)
    if model.kind == LIST:
        low = low // BLOCK * BLOCK
        i = signed(low)
        free[:] = state.kept_free[i // BLOCK]
    elif model.kind == LOAD:
        free[:] = state.load
    elif overlaps:
        i = 0

    left, found = length, True
    while left > 0 and found:
        u = unit[i]
        chooses = begin <= rank[u] < begin + length
        if chooses and ops[first_op[u]] == i:
            left -= 1
            if rng.random() < lasting:
                for d in range(n_devices):
                    taste[d] = strength * rng.random()
            cheapest, least = -1, np.inf
            for d in range(n_devices):
                if not possible[u, d]:
                    continue
                score, fits = taste[d], True
                for g in range(n_groups):
                    if member[g, d] > 0.0:
                        fits = fits and used[g] + size[u] <= limit[g]
                        score += price * size[u]
                if not fits:
                    continue
                if overlaps:
                    ready = free[d]
                    for r in range(first[i], first[i + 1]):
                        m = maker[r]
                        ready = max(ready, finish[m] + transfer_ms[tensor[r], on[m], d])
                    score += ready
                else:
                    score += free[d]
                    for r in range(first[i], first[i + 1]):
                        score += transfer_ms[tensor[r], on[maker[r]], d]
                score += ms[i, d]
                if score < least:
                    cheapest, least = d, score
            found = cheapest >= 0
            if found:
                place[u] = cheapest
                hold(u, cheapest, 1.0)
        here = place[u]
        on[i] = here
        if overlaps:
            ready = free[here]
            for r in range(first[i], first[i + 1]):
                m = maker[r]
                ready = max(ready, finish[m] + transfer_ms[tensor[r], on[m], here])
            finish[i] = ready + ms[i, here]
            free[here] = finish[i] + gap_ms
        elif model.kind == LOAD and chooses:
            free[here] += ms[i, here]
        i += 1

    # operators and finish times return to what the estimate expects; units that stay are not listed
    n_moved = 0
    for k in range(length):
        u, before = moved[k], was[k]
        for at in range(first_op[u], first_op[u + 1]):
            on[ops[at]] = before
        if not found:
            place[u] = before
        elif place[u] != before:
            moved[n_moved], was[n_moved] = u, before
            n_moved += 1
    if model.kind == LIST:
        finish[low:i] = state.kept[low:i]
    if not found:
        used[:] = 0.0
        for u in range(len(place)):
            hold(u, place[u], 1.0)
    return n_moved
