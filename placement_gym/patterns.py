"""Placements that spread over what is possible: contiguous runs, and operators strewn about."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.problem import Problem

MAX_RUNS = 8
MAX_CELLS = 64


def spread(problem: Problem, n: int, rng: np.random.Generator) -> list[IntArray]:
    """``n`` distinct splits, half of them runs, half strewn, every device with a random share.

    Fewer where the problem has not so many. A unit that its device does not support goes to the
    reference device.
    """
    found: dict[bytes, IntArray] = {}
    for attempt in range(20 * n):
        if len(found) == n:
            break
        drawn = runs(problem, rng) if attempt % 2 else strewn(problem, rng)
        split = problem.where_supported(drawn)
        if len(np.unique(split)) > 1:
            found.setdefault(split.tobytes(), split)
    return list(found.values())


def runs(problem: Problem, rng: np.random.Generator) -> IntArray:
    """Two to eight runs of units, neighbouring ones on different devices."""
    n_devices = len(problem.devices)
    n_cuts = min(int(rng.integers(1, MAX_RUNS)), problem.n_units - 1)
    cuts = np.sort(rng.choice(np.arange(1, problem.n_units), n_cuts, replace=False))
    steps = rng.integers(1, max(n_devices, 2), n_cuts + 1)
    devices = (rng.integers(n_devices) + np.cumsum(steps)) % n_devices
    chosen: IntArray = devices[np.searchsorted(cuts, np.arange(problem.n_units), side="right")]
    return chosen


def prefixes(problem: Problem) -> IntArray:
    """(k, n_units) the first units, or all, on one device and the rest on another, any pair.

    Cuts lie on a grid of ``MAX_CELLS`` where there are more units.
    """
    return on_pairs(problem, [(0, cut) for cut in grid(problem)[1:]])


def windows(problem: Problem) -> IntArray:
    """(k, n_units) one run of units on one device, the rest on another; cuts as ``prefixes``."""
    return on_pairs(problem, list(combinations(grid(problem), 2)))


def on_pairs(problem: Problem, intervals: list[tuple[int, int]]) -> IntArray:
    """Every interval of units on one device, the rest on another, where supported."""
    pairs = list(permutations(range(len(problem.devices)), 2))
    found = np.empty((len(pairs) * len(intervals), problem.n_units), dtype=np.int64)
    for row, ((inside, outside), (begin, end)) in enumerate(product(pairs, intervals)):
        found[row] = outside
        found[row, begin:end] = inside
        found[row] = problem.where_supported(found[row])
    return found


def grid(problem: Problem) -> list[int]:
    """Where runs begin and end."""
    cells = min(problem.n_units, MAX_CELLS)
    cuts: list[int] = np.linspace(0, problem.n_units, cells + 1).round().astype(int).tolist()
    return cuts


def strewn(problem: Problem, rng: np.random.Generator) -> IntArray:
    """Every unit by itself, under shares of the devices drawn first."""
    shares = rng.dirichlet(np.ones(len(problem.devices)))
    return rng.choice(len(shares), problem.n_units, p=shares).astype(np.int64)
