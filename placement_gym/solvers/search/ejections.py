"""Random draws, moves of single units and back, and ejections of units from full devices."""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, inlined_part, kernel, signed
from placement_gym.solvers.search.model import SIMULATED, Layout, State


@inlined_part
def draw(rng: np.random.Generator, below: int) -> int:
    """Draw a number from 0 to below ``below``."""
    return int(rng.random() * below)


@inlined_part
def draw_length(rng: np.random.Generator, most: int) -> int:
    """Draw a length: a power of two, times a random factor from one to two."""
    exponents = 1
    while 1 << exponents <= most:
        exponents += 1
    length = 1 << draw(rng, exponents)
    return min(length + draw(rng, length), most)


@kernel
def draw_allowance(rng: np.random.Generator) -> float:
    """Draw how much more a move may cost, in temperatures: x passes in (1 + x / 8)^-8 of draws.

    That is nearly exp(-x), by square roots alone, which are equal on every processor.
    """
    return 8 * (1.0 / np.sqrt(np.sqrt(np.sqrt(1.0 - rng.random()))) - 1.0)


RETURN = 0.7
"""Share of ejections to the device that the moved units left, which has room now."""
EJECTIONS = 12
"""Attempts to make room on a full device."""
EJECTING = 0.3
"""Share of moves that make room; the others may exceed a limit, at a penalty."""
MOST_USED = 1.1
"""Use of a limit, as a share of it, above which a move is refused."""
CANDIDATES = 16
"""Units from which the one to eject is chosen."""
NEAR = 64
"""Maximum number of units visited to find a candidate."""


@inlined_part
def change_use(layout: Layout, used: FloatArray, u: int, to: int, origin: int) -> None:
    """Move the bytes of a unit from the limits of one device to those of another."""
    size, member = layout.size, layout.member
    for g in range(len(used)):
        used[g] += size[u] * (member[g, to] - member[g, origin])


@inlined_part
def move_unit(layout: Layout, state: State, n_moved: int, u: int, there: int) -> int:
    """Move a unit, unless it has moved before or may not be there."""
    if not may_move(layout, state, u, there):
        return n_moved
    return list_move(layout, state, n_moved, u, there)


@inlined_part
def may_move(layout: Layout, state: State, u: int, there: int) -> bool:
    """Tell if a unit is elsewhere, has not moved before and may be on a device."""
    is_new = (state.place[u] != there) & (state.marked[u] != state.scalars.n_moves)
    return is_new & layout.possible[u, there]


@inlined_part
def list_move(layout: Layout, state: State, n_moved: int, u: int, there: int) -> int:
    """Move a unit and list it in the move; return the number listed."""
    here = signed(state.place[u])
    state.marked[u] = state.scalars.n_moves
    state.moved[n_moved], state.was[n_moved], state.place[u] = u, here, there
    change_use(layout, state.used, u, there, here)
    return n_moved + 1


@kernel
def keep_limits(
    kind_of_model: int,
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    n_moved: int,
    freed: int,
) -> tuple[int, float]:
    """Let other units make room for those of a move, or refuse it.

    Simulated moves exceed no limit. Operators do not follow yet. Returns the number of units moved,
    0 if the move is refused; and bytes above limits.
    """
    most = EJECTIONS if kind_of_model == SIMULATED or rng.random() < EJECTING else 0
    n_moved = make_room(layout, state, rng, n_moved, freed, most)

    # limits may be exceeded by some bytes, or by fewer than before
    over, much = measure_excess(state.used, layout.limit)
    much &= over > state.scalars.over_bytes
    refused = n_moved if much | (over > 0.0) & (kind_of_model == SIMULATED) else 0
    put_back(layout, state, refused)
    return n_moved - refused, over


@inlined_part
def measure_excess(used: FloatArray, limit: FloatArray) -> tuple[float, bool]:
    """Add up bytes above limits, and tell if one is exceeded by much."""
    over, much = 0.0, False
    for g in range(len(limit)):
        over += max(used[g] - limit[g], 0.0)
        much = much or used[g] > MOST_USED * limit[g]
    return over, much


@inlined_part
def make_room(
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    n_moved: int,
    freed: int,
    most_attempts: int,
) -> int:
    """Move units from full devices to one with room, often the one that the move has freed.

    Half of the time, the units that follow them on their device move as well.
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


@inlined_part
def find_leaving(
    layout: Layout, state: State, rng: np.random.Generator, g: int, target: int
) -> int:
    """Find the place in the order of the unit to eject from a limit to a device, -1 if none.

    Of some candidates with room there, it loses least per byte.
    """
    order, size, possible, used = layout.order, layout.size, layout.possible, state.used
    leaves, least = signed(-1), np.inf
    for _ in range(CANDIDATES):
        at = draw_candidate(layout, state, rng, g)
        v = signed(order[max(at, 0)])
        if at >= 0 and possible[v, target]:
            lost = measure_loss(layout, state.place, v, target) / size[v]
            if lost < least and has_room(layout, used, target, v):
                leaves, least = at, lost
    return leaves


@inlined_part
def draw_candidate(layout: Layout, state: State, rng: np.random.Generator, g: int) -> int:
    """Find a unit that fills a limit and has not moved, near a random place; -1 if none."""
    order, n_units = layout.order, len(layout.order)
    at, tries = draw(rng, n_units), 0
    while tries < NEAR and not fills(layout, state, g, signed(order[at])):
        at, tries = at + 1 if at + 1 < n_units else 0, tries + 1
    return at if tries < NEAR else -1


@inlined_part
def fills(layout: Layout, state: State, g: int, v: int) -> bool:
    """Tell if a unit counts against a limit and has not moved."""
    counts = (layout.member[g, state.place[v]] != 0.0) & (layout.size[v] != 0.0)
    return counts & (state.marked[v] != state.scalars.n_moves)


@inlined_part
def measure_loss(layout: Layout, place: np.ndarray, v: int, target: int) -> float:
    """Add up what a unit loses on another device: its time, and links that are cut or joined."""
    link, link_ms, here = layout.link, layout.link_ms, place[v]
    lost = layout.unit_ms[v, target] - layout.unit_ms[v, here]
    for k in range(layout.first_link[v], layout.first_link[v + 1]):
        if place[link[k]] == here:
            lost += link_ms[k]
        elif place[link[k]] == target:
            lost -= link_ms[k]
    return lost


@inlined_part
def has_room(layout: Layout, used: FloatArray, target: int, v: int) -> bool:
    """Tell if a device would keep its limits with one more unit."""
    fits = True
    for h in range(len(used)):
        if layout.member[h, target] > 0.0 and used[h] + layout.size[v] > layout.limit[h]:
            fits = False
    return fits


@inlined_part
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
