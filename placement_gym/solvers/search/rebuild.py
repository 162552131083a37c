"""Placing a stretch of units again, one after another: list scheduling from the middle on."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import FloatArray
from placement_gym.base.kernels import kernel, lazy, long_part, part, signed
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


@long_part
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
    unit, ms, first, maker, tensor = model.unit, model.ms, model.first, model.maker, model.tensor
    transfer_ms, gap_ms, overlaps = model.transfer_ms, model.gap_ms, model.overlaps
    first_op, ops, order, rank = layout.first_op, layout.ops, layout.order, layout.rank
    possible, size, member, limit = layout.possible, layout.size, layout.member, layout.limit
    place, on, used, finish = state.place, state.on, state.used, state.finish
    moved, was, numbers = state.moved, state.was, state.numbers
    free, taste = state.device_free, state.taste
    n_groups, n_devices = member.shape

    # the units leave their devices
    for k in range(length):
        u = order[begin + k]
        moved[k], was[k], state.marked[u] = u, place[u], np.int32(numbers[MOVES])
        hold(layout, used, signed(u), signed(place[u]), -1.0)

    # a price of memory, near that of the placement or any; and how strong and lasting tastes are
    if numbers[PRICE] > 0.0 and rng.random() < INHERIT:
        numbers[PRICE] *= 0.7 + 0.7 * rng.random()
    else:
        numbers[PRICE] = (0.5 + rng.random()) * (1 << int(rng.random() * 12)) / 256.0
    price = layout.gain * numbers[PRICE]
    lasting, strength = 1.0 / (1 << int(rng.random() * 9)), 0.0
    if rng.random() < NOISY:
        strength = rng.random() * (1 << int(rng.random() * 6)) * model.mean_ms
    for d in range(n_devices):
        taste[d] = 0.0

    # where the schedule stands before the first operator; loads are those of all other units
    low = signed(ops[first_op[order[begin]]])
    low = low // BLOCK * BLOCK if model.kind == LIST else low
    i = low if model.kind == LIST or not overlaps else 0
    for d in range(n_devices):
        free[d] = 0.0
        if model.kind == LIST:
            free[d] = state.kept_free[i // BLOCK, d]
        elif model.kind == LOAD:
            free[d] = state.load[d]

    # operators in their order, until the last unit has its device: those of units that stay run as
    # well, because what is placed later has to wait for them
    left, found = length, True
    while left > 0 and found:
        u = unit[i]
        chooses = begin <= rank[u] < begin + length
        # a unit chooses when its first operator's turn comes, as if that were all of it
        if chooses and ops[first_op[u]] == i:
            left -= 1
            if rng.random() < lasting:
                for d in range(n_devices):
                    taste[d] = strength * rng.random()
            cheapest, least = signed(-1), np.inf
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
                hold(layout, used, signed(u), cheapest, 1.0)
        # the operator runs there, which delays what follows on the device
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
        for j in range(low, i):
            finish[j] = state.kept[j]
    if not found:
        for g in range(n_groups):
            used[g] = 0.0
        for u in range(len(place)):
            hold(layout, used, u, signed(place[u]), 1.0)
    return n_moved


@part
def hold(layout: Layout, used: FloatArray, u: int, here: int, sign: float) -> None:
    """Count the bytes of a unit against the limits of its device, or no longer."""
    for g in range(len(used)):
        used[g] += sign * layout.size[u] * layout.member[g, here]


rebuild_kernel = lazy(kernel(rebuild))
"""For calls from Python."""
