"""The kernel of ``search.moves``: random changes of a placement."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.arrays import IntArray

EXCHANGES = 0.5
NEIGHBOURS = 0.5
ATTEMPTS = 10
RUN, REGION, BORDER, SWAP = range(4)


@njit(cache=True, nogil=True)
def change_batch(
    rng: np.random.Generator,
    placement: IntArray,
    k: int,
    n_devices: int,
    first: IntArray,
    neighbours: IntArray,
) -> IntArray:
    """(k, n_units) copies of an (n_units,) placement, each changed by a random kind of move.

    Args:
        rng: Source of random numbers.
        placement: (n_units,) devices.
        k: Number of copies.
        n_devices: At least two.
        first: (n_units + 1,) where the neighbours of each unit begin.
        neighbours: Units that a tensor connects with the unit.
    """
    changed = np.empty((k, len(placement)), np.int64)
    for i in range(k):
        row = changed[i]
        for _ in range(ATTEMPTS):
            row[:] = placement
            kind = rng.integers(0, 4)
            if kind == RUN:
                move_run(rng, row, n_devices)
            elif kind == REGION:
                move_region(rng, row, n_devices, first, neighbours)
            elif kind == BORDER:
                shift_border(rng, row)
            else:
                swap_regions(rng, row, first, neighbours)
            if (row != placement).any():
                break
    return changed


@njit(cache=True, nogil=True)
def move_run(rng: np.random.Generator, row: IntArray, n_devices: int) -> None:
    """Move consecutive units to another device, which may give as many of its own in return."""
    length = draw_length(rng, len(row))
    begin = max(rng.integers(1 - length, len(row)), 0)
    here = row[begin]
    there = draw_other(rng, here, n_devices)
    given = np.flatnonzero(row == there)
    row[begin : begin + length] = there
    if len(given) and rng.random() < EXCHANGES:
        start = given[rng.integers(0, len(given))]
        for unit in given:
            if start <= unit < start + length:
                row[unit] = here


@njit(cache=True, nogil=True)
def move_region(
    rng: np.random.Generator, row: IntArray, n_devices: int, first: IntArray, neighbours: IntArray
) -> None:
    """Move connected units of one device to another, often to that of a neighbour."""
    unit = rng.integers(0, len(row))
    here = row[unit]
    there = draw_other(rng, here, n_devices)
    degree = first[unit + 1] - first[unit]
    if degree and rng.random() < NEIGHBOURS:
        near = row[neighbours[first[unit] + rng.integers(0, degree)]]
        there = there if near == here else near
    row[grow(row, unit, draw_length(rng, len(row)), first, neighbours)] = there


@njit(cache=True, nogil=True)
def shift_border(rng: np.random.Generator, row: IntArray) -> None:
    """Move the border between two runs to the left or right."""
    borders = np.flatnonzero(row[1:] != row[:-1]) + 1
    if not len(borders):
        return
    at, length = borders[rng.integers(0, len(borders))], draw_length(rng, len(row))
    if rng.random() < 0.5:
        row[at : at + length] = row[at - 1]
    else:
        row[max(at - length, 0) : at] = row[at]


@njit(cache=True, nogil=True)
def swap_regions(
    rng: np.random.Generator, row: IntArray, first: IntArray, neighbours: IntArray
) -> None:
    """Exchange the devices of two sets of connected units, of equal size where possible."""
    one, size = rng.integers(0, len(row)), draw_length(rng, len(row))
    others = np.flatnonzero(row != row[one])
    if not len(others):
        return
    other = others[rng.integers(0, len(others))]
    here, there = row[one], row[other]
    given = grow(row, other, size, first, neighbours)
    row[grow(row, one, size, first, neighbours)] = there
    row[given] = here


@njit(cache=True, nogil=True)
def grow(row: IntArray, unit: int, size: int, first: IntArray, neighbours: IntArray) -> IntArray:
    """Up to ``size`` connected units of the unit's device, nearest first."""
    found, seen = np.empty(size, np.int64), np.zeros(len(row), np.bool_)
    found[0], seen[unit], count, at = unit, True, 1, 0
    while at < count < size:
        for link in range(first[found[at]], first[found[at] + 1]):
            near = neighbours[link]
            if count < size and row[near] == row[unit] and not seen[near]:
                found[count], seen[near] = near, True
                count += 1
        at += 1
    return found[:count]


@njit(cache=True, nogil=True)
def draw_length(rng: np.random.Generator, n_units: int) -> int:
    """A number from 1 to ``n_units``; its logarithm is uniform."""
    return max(int(np.ceil(n_units ** rng.random())), 1)


@njit(cache=True, nogil=True)
def draw_other(rng: np.random.Generator, here: int, n_devices: int) -> int:
    """A device other than ``here``."""
    return int((here + rng.integers(1, n_devices)) % n_devices)
