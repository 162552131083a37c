"""The kernel of ``solvers.repair``: units and runs leave full devices, least regret a byte first."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.arrays import BoolArray, FloatArray, IntArray

RUN_SHARE = 0.1
"""A run moves as a whole only if that frees at least this share of what its device holds too much;
so few runs move one after another, and the time does not grow with the square of the units."""


class Terms(NamedTuple):
    """What decides which unit goes where.

    Attributes:
        size: (n_units,) bytes.
        limit: (n_devices,) bytes, infinite without a limit.
        price: (n_units, n_devices) ms, infinite where the device does not run the unit.
        first: (n_units + 1,) where each unit's links begin.
        other: (n_links,) the unit at the other end.
        link_ms: (n_links, n_devices, n_devices) transfer by own device and the other's.
        by_size: (n_units,) units, largest first.
    """

    size: FloatArray
    limit: FloatArray
    price: FloatArray
    first: IntArray
    other: IntArray
    link_ms: FloatArray
    by_size: IntArray


@njit(cache=True, nogil=True)
def repair_batch(terms: Terms, placements: IntArray, keep: BoolArray) -> IntArray:
    """(k, n_units) repaired copies of (k, n_units) placements.

    Args:
        terms: Units, devices and prices.
        placements: (k, n_units) devices.
        keep: (k, n_units) bool, units that leave only if all others cannot; or (1, n_units).
    """
    repaired = placements.copy()
    for k in range(len(repaired)):
        repair_one(terms, repaired[k], keep[min(k, len(keep) - 1)])
    return repaired


@njit(cache=True, nogil=True)
def repair_one(terms: Terms, place: IntArray, keep: BoolArray) -> None:
    """Repair one (n_units,) placement in place."""
    room = move_to_supported(terms, place)
    if room.min() >= 0:
        return
    empty_full_devices(terms, place, room, keep)
    while room.min() < 0:
        other = place.copy()
        other_room = refill(terms, other)
        empty_full_devices(terms, other, other_room, keep)
        if overload(other_room) >= overload(room):
            return
        place[:], room[:] = other, other_room


@njit(cache=True, nogil=True)
def overload(room: FloatArray) -> float:
    """Bytes that devices hold beyond their limits."""
    return -np.minimum(room, 0.0).sum()


@njit(cache=True, nogil=True)
def move_to_supported(terms: Terms, place: IntArray) -> FloatArray:
    """Move units that their device does not run; returns the (n_devices,) room that is left."""
    room = terms.limit.copy()
    n, n_devices = terms.price.shape
    for u in range(n):
        if np.isfinite(terms.price[u, place[u]]):
            room[place[u]] -= terms.size[u]
    for u in range(n):
        if not np.isfinite(terms.price[u, place[u]]):
            place[u] = choose_device(terms, u, room)
            room[place[u]] -= terms.size[u]
    return room


@njit(cache=True, nogil=True)
def choose_device(terms: Terms, u: int, room: FloatArray) -> int:
    """The cheapest device that runs a unit and has room, or else the one with the most room."""
    best, widest = -1, -1
    for d in range(len(room)):
        if np.isfinite(terms.price[u, d]):
            if widest < 0 or room[d] > room[widest]:
                widest = d
            if terms.size[u] <= room[d] and (best < 0 or terms.price[u, d] < terms.price[u, best]):
                best = d
    return widest if best < 0 else best


@njit(cache=True, nogil=True)
def refill(terms: Terms, place: IntArray) -> FloatArray:
    """Place units anew, largest first: where they are if they fit, else as ``choose_device``."""
    room = terms.limit.copy()
    for u in terms.by_size:
        if 0.0 < terms.size[u] and terms.size[u] > room[place[u]]:
            place[u] = choose_device(terms, u, room)
        room[place[u]] -= terms.size[u]
    return room


@njit(cache=True, nogil=True)
def empty_full_devices(terms: Terms, place: IntArray, room: FloatArray, keep: BoolArray) -> None:
    """Move units and runs from full devices to where they fit, until that helps no more.

    ``place`` and ``room`` change. Runs are considered at the beginning and whenever a run has
    moved or a device has become feasible, units at every move.
    """
    # single arrays: a tuple of them would be counted as referenced at every call
    size, price, first, other, link_ms = (
        terms.size,
        terms.price,
        terms.first,
        terms.other,
        terms.link_ms,
    )
    for everyone in range(2):
        may_leave = (size > 0.0) & ((everyone == 1) | ~keep)
        waiting = list_units(place, room, may_leave, size, price, first, other, link_ms)
        while len(waiting):
            begin, end, there, rank = choose_run(
                place, room, may_leave, size, price, first, other, link_ms
            )
            if there >= 0 and rank <= waiting[0][0]:
                for u in range(begin, end):
                    move(u, there, place, room, size)
            else:
                move_units(waiting, place, room, may_leave, size, price, first, other, link_ms)
            waiting = list_units(place, room, may_leave, size, price, first, other, link_ms)


@njit(cache=True, nogil=True)
def list_units(
    place: IntArray,
    room: FloatArray,
    may_leave: BoolArray,
    size: FloatArray,
    price: FloatArray,
    first: IntArray,
    other: IntArray,
    link_ms: FloatArray,
) -> list[tuple[float, int]]:
    """A heap of (rank, unit) of the units that can leave a full device."""
    waiting = [(0.0, 0) for _ in range(0)]
    for u in range(len(place)):
        if may_leave[u] and room[place[u]] < 0.0:
            rank, there = choose_target(u, place, room, size, price, first, other, link_ms)
            if there >= 0:
                heappush(waiting, (rank, u))
    return waiting


@njit(cache=True, nogil=True)
def move_units(
    waiting: list[tuple[float, int]],
    place: IntArray,
    room: FloatArray,
    may_leave: BoolArray,
    size: FloatArray,
    price: FloatArray,
    first: IntArray,
    other: IntArray,
    link_ms: FloatArray,
) -> None:
    """Move units of the heap, least rank first, until a device has become feasible.

    Ranks rise where other devices fill, which is seen when a unit is next; they fall only where a
    neighbour has moved, which is then added again.
    """
    while len(waiting):
        rank, u = heappop(waiting)
        now, there = choose_target(u, place, room, size, price, first, other, link_ms)
        if there < 0 or room[place[u]] >= 0.0:
            continue
        if now > rank:
            heappush(waiting, (now, u))
            continue
        here = place[u]
        move(u, there, place, room, size)
        if room[here] >= 0.0:
            return
        for link in range(first[u], first[u + 1]):
            v = other[link]
            if may_leave[v] and room[place[v]] < 0.0:
                rank, there = choose_target(v, place, room, size, price, first, other, link_ms)
                if there >= 0:
                    heappush(waiting, (rank, v))


@njit(cache=True, nogil=True)
def move(u: int, there: int, place: IntArray, room: FloatArray, size: FloatArray) -> None:
    room[place[u]] += size[u]
    room[there] -= size[u]
    place[u] = there


@njit(cache=True, nogil=True)
def choose_target(
    u: int,
    place: IntArray,
    room: FloatArray,
    size: FloatArray,
    price: FloatArray,
    first: IntArray,
    other: IntArray,
    link_ms: FloatArray,
) -> tuple[float, int]:
    """The rank of a unit's move to its best device with room, and the device, -1 if none."""
    best, there = np.inf, -1
    for d in range(len(room)):
        if d != place[u] and size[u] <= room[d]:
            regret = regret_ms(u, u + 1, d, place, price, first, other, link_ms)
            if regret < best:
                best, there = regret, d
    return rank_move(best, size[u]), there


@njit(cache=True, nogil=True)
def rank_move(regret: float, size: float) -> float:
    """Regret a byte; of gains, the larger the gain and the bytes, the lower."""
    return regret / size if regret > 0.0 else regret * size


@njit(cache=True, nogil=True)
def regret_ms(
    begin: int,
    end: int,
    there: int,
    place: IntArray,
    price: FloatArray,
    first: IntArray,
    other: IntArray,
    link_ms: FloatArray,
) -> float:
    """What it costs to move adjacent units: their price and transfers to all other units, in ms."""
    regret = 0.0
    for u in range(begin, end):
        here = place[u]
        regret += price[u, there] - price[u, here]
        for link in range(first[u], first[u + 1]):
            v = other[link]
            if v < begin or v >= end:
                regret += link_ms[link, there, place[v]] - link_ms[link, here, place[v]]
    return regret


@njit(cache=True, nogil=True)
def choose_run(
    place: IntArray,
    room: FloatArray,
    may_leave: BoolArray,
    size: FloatArray,
    price: FloatArray,
    first: IntArray,
    other: IntArray,
    link_ms: FloatArray,
) -> tuple[int, int, int, float]:
    """The whole run, or shortest end of one that frees enough, of least rank.

    Returns:
        Its first unit, the unit after its last, its best device with room (-1 if there is none)
        and its rank.
    """
    best = (0, 0, -1, np.inf)
    begin = 0
    while begin < len(place):
        end = begin + 1
        while end < len(place) and place[end] == place[begin]:
            end += 1
        excess = -room[place[begin]]
        if excess > 0.0 and end - begin > 1:
            for part in range(3):
                i, j, held = cut_run(begin, end, part, excess, may_leave, size)
                if held < RUN_SHARE * excess or held == 0.0:
                    continue
                for d in range(len(room)):
                    if d != place[begin] and held <= room[d]:
                        regret = regret_ms(i, j, d, place, price, first, other, link_ms)
                        rank = rank_move(regret, held)
                        if rank < best[3]:
                            best = (i, j, d, rank)
        begin = end
    return best


@njit(cache=True, nogil=True)
def cut_run(
    begin: int, end: int, part: int, excess: float, may_leave: BoolArray, size: FloatArray
) -> tuple[int, int, float]:
    """A run (part 0), or its shortest beginning (1) or end (2) that holds ``excess`` bytes.

    Returns:
        Its first unit, the unit after its last, and its bytes, 0 if some of it may not leave.
    """
    held, count = 0.0, 0
    while count < end - begin and (part == 0 or held < excess):
        u = end - 1 - count if part == 2 else begin + count
        if size[u] > 0.0 and not may_leave[u]:
            return begin, end, 0.0
        held += size[u]
        count += 1
    return (end - count, end, held) if part == 2 else (begin, begin + count, held)


@njit(cache=True, nogil=True)
def price_batch(
    placements: IntArray,
    price: FloatArray,
    first: IntArray,
    other: IntArray,
    link_ms: FloatArray,
) -> FloatArray:
    """(k,) sums of the prices and links of (k, n_units) placements; each link is in both ends."""
    total = np.zeros(len(placements))
    for k in range(len(placements)):
        place = placements[k]
        for u in range(len(place)):
            total[k] += price[u, place[u]]
            for link in range(first[u], first[u + 1]):
                total[k] += link_ms[link, place[u], place[other[link]]] / 2.0
    return total
