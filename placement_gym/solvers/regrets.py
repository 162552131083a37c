"""Kernels of a repair: what it costs to move a unit or a run, and which move is cheapest.

``place`` is (n_units,) devices and ``room`` (n_devices,) bytes that are left, the same for all
devices that share memory; the other arrays are
those of ``repair_kernel.RepairTerms``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.base.arrays import BoolArray, FloatArray, IntArray

RUN_SHARE = 0.1
"""A run moves as a whole only if that frees at least this share of its device's excess. So only few
runs move one after another, and the time does not grow with the square of the number of units."""


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
    """Regret per byte; a gain ranks lower the larger it is and the more bytes it frees."""
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
    """Cost in ms of moving adjacent units: their price and transfers to all other units."""
    regret = 0.0
    for u in range(begin, end):
        here = place[u]
        regret += price[u, there] - price[u, here]
        for link in range(first[u], first[u + 1]):
            v = other[link]
            # Transfers inside of the run move with it.
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
    """The move of the lowest rank: of a whole run that frees no more than needed, or of an end.

    Of each run, only the shortest beginning and end that free enough are considered.

    Returns:
        Its first unit, the unit after its last, its best device with room (-1 if there is none)
        and its rank.
    """
    best = (0, 0, -1, np.inf)
    begin = 0
    # A run is a range of adjacent numbers on one device. Units are numbered in topological order,
    # so that it is mostly connected.
    while begin < len(place):
        end = begin + 1
        while end < len(place) and place[end] == place[begin]:
            end += 1
        excess = -room[place[begin]]
        if excess > 0.0 and end - begin > 1:
            for part in range(3):
                i, j, held = cut_run(begin, end, part, excess, may_leave, size)
                # A whole run that holds more than the excess would move more than is needed: an end
                # does.
                too_much = part == 0 and held > excess
                if held == 0.0 or held < RUN_SHARE * excess or too_much:
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
    """(k,) sums of the prices and links of (k, n_units) placements; each link is stored twice."""
    total = np.zeros(len(placements))
    for k in range(len(placements)):
        place = placements[k]
        for u in range(len(place)):
            total[k] += price[u, place[u]]
            for link in range(first[u], first[u + 1]):
                total[k] += link_ms[link, place[u], place[other[link]]] / 2.0
    return total
