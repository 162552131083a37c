"""The kernel of ``solvers.repair``: units and runs leave full devices, least regret first."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray, inlined_part, kernel, signed

RUN_SHARE = 0.1
"""A run moves as a whole only if it frees at least this share of its device's excess. So few runs
move, and the time does not grow with the square of the number of units."""


class RepairTerms(NamedTuple):
    """Arrays that decide the moves of units."""

    size: FloatArray  # (n_units,) bytes
    # (n_devices,) bytes, infinite without a limit; that of its pool if it shares one
    limit: FloatArray
    owner: IntArray  # (n_devices,) the first device of those that share its memory, mostly itself
    price: FloatArray  # (n_units, n_devices) ms, infinite where the device does not run the unit
    first: IntArray  # (n_units + 1,) where each unit's links begin
    other: IntArray  # (n_links,) the unit at the other end
    link_ms: FloatArray  # (n_links, n_devices, n_devices) transfer by own device and the other's
    by_size: IntArray  # (n_units,) units, largest first


@kernel
def repair_batch(terms: RepairTerms, placements: IntArray, keep: BoolArray) -> IntArray:
    """Repaired copies of (k, n_units) placements.

    Units in ``keep``, a row for each or one for all, leave only if all others cannot.
    """
    repaired, owner = placements.copy(), terms.owner
    for k in range(len(repaired)):
        place, preferred = repaired[k], keep[min(k, len(keep) - 1)]
        room = move_to_supported(terms, place)
        if overload(room, owner) > 0.0:
            empty_full_devices(terms, place, room, preferred)
        # Moves of single units can get stuck where units of other sizes block each other. Then all
        # units are placed again, largest first, as long as that lowers the overload.
        while overload(room, owner) > 0.0:
            other = place.copy()
            other_room = refill(terms, other)
            empty_full_devices(terms, other, other_room, preferred)
            if overload(other_room, owner) >= overload(room, owner):
                break
            for u in range(len(place)):
                place[u] = other[u]
            room = other_room
    return repaired


@inlined_part
def overload(room: FloatArray, owner: IntArray) -> float:
    """Bytes that devices hold beyond their limits; those of a pool count once."""
    total = 0.0
    for d in range(len(room)):
        # All devices of a pool have the same room: only its first one counts.
        if owner[d] == d:
            total -= min(room[d], 0.0)
    return total


@inlined_part
def take_room(room: FloatArray, owner: IntArray, device: int, size: float) -> None:
    """Subtract bytes from the room of a device and all that share its memory."""
    for d in range(len(room)):
        if owner[d] == owner[device]:
            room[d] -= size


@inlined_part
def move_to_supported(terms: RepairTerms, place: IntArray) -> FloatArray:
    """Move units that their device does not support; return the (n_devices,) room left."""
    room = terms.limit.copy()
    n = len(place)
    # Units that stay take room first, or others would choose full devices.
    for u in range(n):
        if np.isfinite(terms.price[u, place[u]]):
            take_room(room, terms.owner, place[u], terms.size[u])
    for u in range(n):
        if not np.isfinite(terms.price[u, place[u]]):
            place[u] = choose_device(terms, u, room)
            take_room(room, terms.owner, place[u], terms.size[u])
    return room


@inlined_part
def choose_device(terms: RepairTerms, u: int, room: FloatArray) -> int:
    """The cheapest device that runs a unit and has room, or else the one with the most room."""
    best, widest = -1, -1
    for d in range(len(room)):
        if np.isfinite(terms.price[u, d]):
            if widest < 0 or room[d] > room[widest]:
                widest = d
            if terms.size[u] <= room[d] and (best < 0 or terms.price[u, d] < terms.price[u, best]):
                best = d
    return widest if best < 0 else best


@inlined_part
def refill(terms: RepairTerms, place: IntArray) -> FloatArray:
    """Place all units again, largest first; those on full devices by ``choose_device``."""
    room = terms.limit.copy()
    for u in terms.by_size:
        # Moving a unit without bytes frees nothing.
        if terms.size[u] > 0.0 and terms.size[u] > room[place[u]]:
            place[u] = choose_device(terms, u, room)
        take_room(room, terms.owner, place[u], terms.size[u])
    return room


@inlined_part
def empty_full_devices(
    terms: RepairTerms, place: IntArray, room: FloatArray, keep: BoolArray
) -> None:
    """Move units and runs from full devices to where they fit, until no move helps.

    Runs are considered at the beginning and after a run has moved or a device has become feasible,
    units at every move.
    """
    # Units to keep leave only in the second round, when no others can.
    may_leave = np.empty(len(place), np.bool_)
    for everyone in range(2):
        for u in range(len(place)):
            may_leave[u] = terms.size[u] > 0.0 and (everyone == 1 or not keep[u])
        waiting = list_units(terms, place, room, may_leave)
        while len(waiting):
            begin, end, there, rank = choose_run(terms, place, room, may_leave)
            # A run pays for no inner transfer: it may beat its best unit.
            if there >= 0 and rank <= waiting[0][0]:
                for u in range(begin, end):
                    move(terms, u, there, place, room)
            else:
                move_units(terms, waiting, place, room, may_leave)
            waiting = list_units(terms, place, room, may_leave)


@inlined_part
def list_units(
    terms: RepairTerms, place: IntArray, room: FloatArray, may_leave: BoolArray
) -> list[tuple[float, int]]:
    """A heap of (rank, unit) of the units that can leave a full device."""
    waiting = [(0.0, 0) for _ in range(0)]
    for u in range(len(place)):
        if may_leave[u] and room[place[u]] < 0.0:
            rank, there = choose_target(terms, u, place, room)
            if there >= 0:
                heappush(waiting, (rank, u))
    return waiting


@inlined_part
def move_units(
    terms: RepairTerms,
    waiting: list[tuple[float, int]],
    place: IntArray,
    room: FloatArray,
    may_leave: BoolArray,
) -> None:
    """Move units of the heap, least rank first, until a device has become feasible.

    Ranks increase as other devices fill up, which is noticed at a unit's turn. They decrease only
    if a neighbour moves; then the unit is added again.
    """
    while len(waiting):
        rank, u = heappop(waiting)
        now, there = choose_target(terms, u, place, room)
        # Other moves may have filled its target or made its own device feasible.
        if there < 0 or room[place[u]] >= 0.0:
            continue
        # A stale rank is a lower bound: the unit goes back with its true one.
        if now > rank:
            heappush(waiting, (now, u))
            continue
        here = place[u]
        move(terms, u, there, place, room)
        if room[here] >= 0.0:
            return
        # Only a neighbour's move can lower a rank.
        for link in range(terms.first[u], terms.first[u + 1]):
            v = terms.other[link]
            if may_leave[v] and room[place[v]] < 0.0:
                rank, there = choose_target(terms, v, place, room)
                if there >= 0:
                    heappush(waiting, (rank, v))


@inlined_part
def move(terms: RepairTerms, u: int, there: int, place: IntArray, room: FloatArray) -> None:
    take_room(room, terms.owner, place[u], -terms.size[u])
    take_room(room, terms.owner, there, terms.size[u])
    place[u] = there


@inlined_part
def choose_target(
    terms: RepairTerms, u: int, place: IntArray, room: FloatArray
) -> tuple[float, int]:
    """The rank of a unit's move to its best device with room, and that device, -1 if none."""
    best, there = np.inf, -1
    for d in range(len(room)):
        if d != place[u] and terms.size[u] <= room[d]:
            regret = regret_ms(terms, u, u + 1, d, place)
            if regret < best:
                best, there = regret, d
    return rank_move(best, terms.size[u]), there


@inlined_part
def rank_move(regret: float, size: float) -> float:
    """Regret per byte; a gain ranks lower the larger it is and the more bytes it frees."""
    return regret / size if regret > 0.0 else regret * size


@inlined_part
def regret_ms(terms: RepairTerms, begin: int, end: int, there: int, place: IntArray) -> float:
    """Cost in ms of moving adjacent units: their prices and transfers to all other units."""
    price, first, other, link_ms = terms.price, terms.first, terms.other, terms.link_ms
    regret = 0.0
    for u in range(begin, end):
        here = place[u]
        regret += price[u, there] - price[u, here]
        for link in range(first[u], first[u + 1]):
            v = other[link]
            # Transfers inside the run move with it.
            if v < begin or v >= end:
                regret += link_ms[link, there, place[v]] - link_ms[link, here, place[v]]
    return regret


@inlined_part
def choose_run(
    terms: RepairTerms, place: IntArray, room: FloatArray, may_leave: BoolArray
) -> tuple[int, int, int, float]:
    """The best move of a whole run that frees no more than needed, or of an end of a run.

    Of each run, only the shortest beginning and end that free enough are considered. Returns its
    first unit, the unit after its last, its best device with room (-1 if none) and its rank.
    """
    best = (0, 0, -1, np.inf)
    begin = signed(0)
    # A run is a range of units on one device. They are numbered in topological order, so it is
    # mostly connected.
    while begin < len(place):
        end = begin + 1
        while end < len(place) and place[end] == place[begin]:
            end += 1
        excess = -room[place[begin]]
        if excess > 0.0 and end - begin > 1:
            for part in range(3):
                i, j, run_bytes = cut_run(begin, end, part, excess, may_leave, terms.size)
                # If the whole run holds more than the excess, an end of it suffices.
                too_much = part == 0 and run_bytes > excess
                if run_bytes == 0.0 or run_bytes < RUN_SHARE * excess or too_much:
                    continue
                for d in range(len(room)):
                    if d != place[begin] and run_bytes <= room[d]:
                        regret = regret_ms(terms, i, j, d, place)
                        rank = rank_move(regret, run_bytes)
                        if rank < best[3]:
                            best = (i, j, d, rank)
        begin = end
    return best


@inlined_part
def cut_run(
    begin: int, end: int, part: int, excess: float, may_leave: BoolArray, size: FloatArray
) -> tuple[int, int, float]:
    """A run (part 0), or its shortest beginning (1) or end (2) that holds ``excess`` bytes.

    Returns its first unit, the unit after its last, and its bytes, 0 if a unit may not leave.
    """
    run_bytes, count = 0.0, 0
    while count < end - begin and (part == 0 or run_bytes < excess):
        u = end - 1 - count if part == 2 else begin + count
        if size[u] > 0.0 and not may_leave[u]:
            return begin, end, 0.0
        run_bytes += size[u]
        count += 1
    return (end - count, end, run_bytes) if part == 2 else (begin, begin + count, run_bytes)


@kernel
def price_batch(
    placements: IntArray, price: FloatArray, first: IntArray, other: IntArray, link_ms: FloatArray
) -> FloatArray:
    """(k,) sums of prices and links of (k, n_units) placements; each link is stored twice."""
    total = np.zeros(len(placements))
    for k in range(len(placements)):
        place = placements[k]
        for u in range(len(place)):
            total[k] += price[u, place[u]]
            for link in range(first[u], first[u + 1]):
                total[k] += link_ms[link, place[u], place[other[link]]] / 2.0
    return total
