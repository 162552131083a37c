"""Placing a stretch of units again, one after another: list scheduling from the middle on."""

from __future__ import annotations

from typing import Any

import numpy as np

from placement_gym.base import FloatArray, inlined_part, kernel, signed
from placement_gym.solvers.search.model import BLOCK, LIST, LOAD, Layout, Model, State

INHERIT = 0.8
"""Share of rebuilds whose price of memory is near that of the placement."""
NOISY = 0.7
"""Share of rebuilds in which devices have random tastes."""


@kernel
def rebuild(
    model: Model, layout: Layout, state: State, rng: np.random.Generator, begin: int, length: int
) -> int:
    """Remove consecutive units from their devices and place each where it finishes first.

    If operators take turns, units are placed where they and their readings cost least. A byte of a
    limited device has a price, and devices have random tastes, constant over runs of operators, so
    repeated calls differ. The first unit is at ``begin`` in ``Layout.order``. Returns the number of
    units that have moved, which ``moved`` and ``was`` list; 0, with nothing changed, if some unit
    found no room.
    """
    order, rank, unit = layout.order, layout.rank, model.unit
    first_op, ops, place, taste = layout.first_op, layout.ops, state.place, state.taste
    # the units leave their devices
    for k in range(length):
        u = signed(order[begin + k])
        state.moved[k], state.was[k], state.marked[u] = u, place[u], state.scalars.n_moves
        hold(layout, state.used, u, signed(place[u]), -1.0)

    # preferences, and the operator from which on devices are scheduled
    price = layout.gain * draw_price(state.scalars, rng)
    lasting, strength = draw_tastes(model, rng)
    for d in range(len(taste)):
        taste[d] = 0.0
    low = signed(ops[first_op[order[begin]]])
    low = low // BLOCK * BLOCK if model.kind == LIST else low
    i = low if model.kind == LIST or not model.overlaps else 0
    start_devices(model, state, i)

    # operators in their order, until the last unit has its device; those of units that stay run as
    # well, as others wait for them
    left, found = length, True
    while left > 0 and found:
        u = signed(unit[i])
        chooses = begin <= rank[u] < begin + length
        # a unit chooses when its first operator's turn comes, as if that were all of it
        if chooses and ops[first_op[u]] == i:
            left -= 1
            if rng.random() < lasting:
                for d in range(len(taste)):
                    taste[d] = strength * rng.random()
            cheapest = find_cheapest(model, layout, state, i, u, price)
            found = cheapest >= 0
            if found:
                place[u] = cheapest
                hold(layout, state.used, u, cheapest, 1.0)
        here = signed(place[u])
        state.on[i] = here
        if model.overlaps:
            run_operator(model, state, i, here)
        elif model.kind == LOAD and chooses:
            state.device_free[here] += model.ms[i, here]
        i += 1
    if model.kind == LIST:
        for j in range(low, i):
            state.finish[j] = state.kept[j]
    if found:
        n_moved = list_moved(layout, state, length)
    else:
        n_moved = put_back_stretch(layout, state, length)
    return n_moved


@inlined_part
def draw_price(scalars: Any, rng: np.random.Generator) -> float:
    """Draw the price of a byte, near that of the placement or any."""
    if scalars.price > 0.0 and rng.random() < INHERIT:
        scalars.price *= 0.7 + 0.7 * rng.random()
    else:
        scalars.price = (0.5 + rng.random()) * (1 << int(rng.random() * 12)) / 256.0
    return scalars.price


@inlined_part
def draw_tastes(model: Model, rng: np.random.Generator) -> tuple[float, float]:
    """Draw how often tastes change, as a share of units, and their strength in ms."""
    changing = 1.0 / (1 << int(rng.random() * 9))
    if rng.random() >= NOISY:
        return changing, 0.0
    return changing, rng.random() * (1 << int(rng.random() * 6)) * model.mean_ms


@inlined_part
def start_devices(model: Model, state: State, first: int) -> None:
    """Set when devices are free before an operator; for loads, to those of all other units."""
    free, kept_free, load, kind = state.device_free, state.kept_free, state.load, model.kind
    for d in range(len(free)):
        free[d] = 0.0
        if kind == LIST:
            free[d] = kept_free[first // BLOCK, d]
        elif kind == LOAD:
            free[d] = load[d]


@inlined_part
def find_cheapest(model: Model, layout: Layout, state: State, i: int, u: int, price: float) -> int:
    """Find the device with room on which an operator finishes first, or costs least; -1 if none."""
    first, maker, tensor, on = model.first, model.maker, model.tensor, state.on
    transfer_ms, finish, size, member = model.transfer_ms, state.finish, layout.size, layout.member
    cheapest, least = signed(-1), np.inf
    for d in range(len(state.taste)):
        if not layout.possible[u, d]:
            continue
        score, fits = state.taste[d], True
        for g in range(len(member)):
            if member[g, d] > 0.0:
                fits = fits and state.used[g] + size[u] <= layout.limit[g]
                score += price * size[u]
        if not fits:
            continue
        if model.overlaps:
            ready = state.device_free[d]
            for r in range(first[i], first[i + 1]):
                m = maker[r]
                ready = max(ready, finish[m] + transfer_ms[tensor[r], on[m], d])
            score += ready
        else:
            score += state.device_free[d]
            for r in range(first[i], first[i + 1]):
                score += transfer_ms[tensor[r], on[maker[r]], d]
        score += model.ms[i, d]
        if score < least:
            cheapest, least = d, score
    return cheapest


@inlined_part
def run_operator(model: Model, state: State, i: int, here: int) -> None:
    """Run an operator on its device, which delays what follows there."""
    first, maker, tensor, transfer_ms = model.first, model.maker, model.tensor, model.transfer_ms
    free, finish, on = state.device_free, state.finish, state.on
    ready = free[here]
    for r in range(first[i], first[i + 1]):
        m = maker[r]
        ready = max(ready, finish[m] + transfer_ms[tensor[r], on[m], here])
    finish[i] = ready + model.ms[i, here]
    free[here] = finish[i] + model.gap_ms


@inlined_part
def list_moved(layout: Layout, state: State, length: int) -> int:
    """List the units of a stretch that have moved, whose operators do not follow yet."""
    place, moved, was, n_moved = state.place, state.moved, state.was, 0
    for k in range(length):
        u, before = signed(moved[k]), was[k]
        for at in range(layout.first_op[u], layout.first_op[u + 1]):
            state.on[layout.ops[at]] = before
        if place[u] != before:
            moved[n_moved], was[n_moved] = u, before
            n_moved += 1
    return n_moved


@inlined_part
def put_back_stretch(layout: Layout, state: State, length: int) -> int:
    """Put the units of a stretch back; return that none has moved."""
    place, used = state.place, state.used
    for k in range(list_moved(layout, state, length)):
        place[state.moved[k]] = state.was[k]
    # memory from the beginning, as sums in another order would differ in the last bits
    for g in range(len(used)):
        used[g] = 0.0
    for u in range(len(place)):
        hold(layout, used, u, signed(place[u]), 1.0)
    return 0


@inlined_part
def hold(layout: Layout, used: FloatArray, u: int, here: int, sign: float) -> None:
    """Count the bytes of a unit against the limits of its device, or no longer."""
    for g in range(len(used)):
        used[g] += sign * layout.size[u] * layout.member[g, here]
