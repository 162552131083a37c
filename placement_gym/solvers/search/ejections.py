"""Moves of single units and back, and ejections: units that leave devices that are full."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import FloatArray
from placement_gym.base.kernels import kernel, long_part, part, signed
from placement_gym.solvers.search.draws import draw
from placement_gym.solvers.search.model import MOVES, OVER, SIMULATED, Layout, State

RETURN = 0.7
"""Share of ejections to where the moved units came from, which has room now."""
EJECTIONS = 12
"""Attempts to make room on a full device."""
EJECTING = 0.3
"""Share of moves that make room; the others may exceed a limit, at a penalty."""
MOST_USED = 1.1
"""Use of a limit, as a share of it, from which on a move is refused."""
CANDIDATES = 16
"""Units of which the one to eject is chosen."""
NEAR = 64
"""Units that are looked at for a candidate."""


@part
def change_use(layout: Layout, used: FloatArray, u: int, to: int, origin: int) -> None:
    """Count the bytes of a unit against the limits of another device."""
    size, member = layout.size, layout.member
    for g in range(len(used)):
        used[g] += size[u] * (member[g, to] - member[g, origin])


@part
def move_unit(layout: Layout, state: State, n_moved: int, u: int, there: int) -> int:
    """Move a unit, unless it has moved before or may not be there."""
    place, marked, now = state.place, state.marked, np.int32(state.numbers[MOVES])
    here = signed(place[u])
    if here == there or marked[u] == now or not layout.possible[u, there]:
        return n_moved
    marked[u] = now
    state.moved[n_moved], state.was[n_moved], place[u] = u, here, there
    change_use(layout, state.used, u, there, here)
    return n_moved + 1


@long_part
def keep_limits(
    kind_of_model: int,
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    n_moved: int,
    freed: int,
) -> tuple[int, float]:
    """Let other units make room for those of a move, or refuse it.

    Args:
        kind_of_model: If it is ``SIMULATED``, no limit is exceeded.
        layout: Units.
        state: ``moved`` and ``was`` list the units; their operators are not moved yet.
        rng: Source of random numbers.
        n_moved: How many units were moved.
        freed: The device that the move has freed; -1 if it is refused already.

    Returns:
        How many units were moved in all, 0 if the move is refused; and bytes above limits.
    """
    if freed < 0:
        return 0, 0.0
    used, limit = state.used, layout.limit
    most = EJECTIONS if kind_of_model == SIMULATED or rng.random() < EJECTING else 0
    n_moved = make_room(layout, state, rng, n_moved, freed, most)

    # where no room was made, limits may be exceeded by some bytes, or by fewer than before
    over, much = 0.0, False
    for g in range(len(limit)):
        over += max(used[g] - limit[g], 0.0)
        much = much or used[g] > MOST_USED * limit[g]
    if (much and over > state.numbers[OVER]) or (over > 0.0 and kind_of_model == SIMULATED):
        put_back(layout, state, n_moved)
        n_moved = 0
    return n_moved, over


@long_part
def make_room(
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    n_moved: int,
    freed: int,
    most_attempts: int,
) -> int:
    """Let units leave devices that are full for one with room, perhaps with their neighbours in
    the order; often for the one that the move has freed.
    """
    place, order, used, limit = state.place, layout.order, state.used, layout.limit
    n_groups, n_devices = layout.member.shape
    for g in range(n_groups):
        attempts = 0
        while used[g] > limit[g] and attempts < most_attempts:
            attempts += 1
            target = freed if rng.random() < RETURN else draw(rng, n_devices)
            if layout.member[g, target] > 0.0:
                continue
            at = find_leaving(layout, state, rng, g, target)
            if at < 0:
                continue
            # the unit, and often those that follow it on its device
            origin, run = place[order[at]], rng.random() < 0.5
            n_moved = move_unit(layout, state, n_moved, signed(order[at]), target)
            while run and used[g] > limit[g] and at + 1 < len(order):
                at += 1
                v = signed(order[at])
                if place[v] != origin or not has_room(layout, used, target, v):
                    break
                n_moved = move_unit(layout, state, n_moved, v, target)
    return n_moved


@part
def find_leaving(
    layout: Layout, state: State, rng: np.random.Generator, g: int, target: int
) -> int:
    """Find, of some units that fill a limit, the place in the order of the one that loses least for
    each of its bytes on another device; -1 if none of them has room there.
    """
    place, order, size, member = state.place, layout.order, layout.size, layout.member
    unit_ms, n_units = layout.unit_ms, len(layout.order)
    leaves, least, now = -1, np.inf, np.int32(state.numbers[MOVES])
    for _ in range(CANDIDATES):
        # the next one from a random place on that is on the device and has not moved
        at, tries = draw(rng, n_units), 0
        v = order[at]
        while tries < NEAR and (
            member[g, place[v]] == 0.0 or size[v] == 0.0 or state.marked[v] == now
        ):
            at, tries = at + 1 if at + 1 < n_units else 0, tries + 1
            v = order[at]
        if tries == NEAR or not layout.possible[v, target]:
            continue
        # its own time, and links that would be cut or joined
        lost = unit_ms[v, target] - unit_ms[v, place[v]]
        for k in range(layout.first_link[v], layout.first_link[v + 1]):
            if place[layout.link[k]] == place[v]:
                lost += layout.link_ms[k]
            elif place[layout.link[k]] == target:
                lost -= layout.link_ms[k]
        if lost / size[v] < least and has_room(layout, state.used, target, signed(v)):
            leaves, least = at, lost / size[v]
    return leaves


@part
def has_room(layout: Layout, used: FloatArray, target: int, v: int) -> bool:
    """Tell if a device would keep its limits with one more unit."""
    fits = True
    for h in range(len(used)):
        if layout.member[h, target] > 0.0 and used[h] + layout.size[v] > layout.limit[h]:
            fits = False
    return fits


@part
def put_back(layout: Layout, state: State, n_moved: int) -> None:
    """Put the units of a move back."""
    place, moved, was = state.place, state.moved, state.was
    for k in range(n_moved):
        u = signed(moved[k])
        here, there = signed(was[k]), signed(place[u])
        change_use(layout, state.used, u, here, there)
        place[u] = here


def undo(layout: Layout, state: State, n_moved: int) -> None:
    """Put the units of a move back, as ``put_back`` does, outside of kernels."""
    moved, was = state.moved[:n_moved], state.was[:n_moved]
    gained = layout.member[:, was] - layout.member[:, state.place[moved]]
    state.used[:] += (layout.size[moved] * gained).sum(axis=1)
    state.place[moved] = was


keep_limits_kernel = kernel(keep_limits)
"""For calls from Python."""
