"""Patterns of placements: windows, random runs of units, and random units."""

from __future__ import annotations

import numpy as np

from placement_gym.base import IntArray, round_significant
from placement_gym.problem.problem import Problem

MAX_RUNS = 8
"""Largest number of runs. Hand-tuned: more runs add transfers and rarely win."""
MAX_SCATTERED = 256
"""Largest number of runs of ``random_units``. Hand-tuned: each submodel takes time to compile."""
MAX_CELLS = 64
"""Intervals of a grid. Hand-tuned: they make 2,080 windows for each pair of devices."""

Interval = tuple[int, int]


def cut_grid(problem: Problem, cells: int = MAX_CELLS) -> list[int]:
    """Even cut points from 0 to ``n_units``, of at most ``cells`` intervals."""
    cells = min(problem.n_units, cells)
    cuts: list[int] = np.linspace(0, problem.n_units, cells + 1).round().astype(int).tolist()
    return cuts


def window(problem: Problem, interval: Interval, inside: int, outside: int) -> IntArray:
    """(n_units,) the units of ``range(*interval)`` on device ``inside``, all others ``outside``.

    Unsupported units are moved, see ``Problem.move_unsupported``.
    """
    assignment = problem.single(outside)
    assignment[slice(*interval)] = inside
    return problem.move_unsupported(assignment)


def random_devices(problem: Problem, rng: np.random.Generator) -> IntArray:
    """(n_units,) a random device for each unit, among those that support it."""
    weights = rng.random(problem.supported.shape) * problem.supported
    return weights.argmax(axis=1).astype(np.int64)


def random_blocks(problem: Problem, rng: np.random.Generator) -> IntArray:
    """(n_units,) one to eight runs of units, each on a random device."""
    n_cuts = min(int(rng.integers(MAX_RUNS)), problem.n_units - 1)
    cuts = random_cuts(problem, n_cuts, rng)
    devices = rng.integers(len(problem.devices), size=n_cuts + 1)
    return problem.move_unsupported(fill_runs(problem, cuts, devices))


def random_runs(problem: Problem, rng: np.random.Generator) -> IntArray:
    """(n_units,) two to eight runs, neighbours on different devices; ignores support."""
    n_devices = len(problem.devices)
    n_cuts = min(int(rng.integers(1, MAX_RUNS)), problem.n_units - 1)
    cuts = random_cuts(problem, n_cuts, rng)
    # A step from 1 to n_devices - 1, modulo n_devices, never repeats the previous device.
    steps = rng.integers(1, max(n_devices, 2), n_cuts + 1)
    return fill_runs(problem, cuts, (rng.integers(n_devices) + np.cumsum(steps)) % n_devices)


def random_units(problem: Problem, rng: np.random.Generator) -> IntArray:
    """(n_units,) a random device for each unit, by random shares of devices; ignores support.

    More than ``MAX_SCATTERED`` units are placed in so many equal runs.
    """
    # The last bits of a Dirichlet draw differ between processors.
    shares = round_significant(rng.dirichlet(np.ones(len(problem.devices))), 6)
    n_runs = min(problem.n_units, MAX_SCATTERED)
    devices = rng.choice(len(shares), n_runs, p=shares / shares.sum())
    return devices[np.arange(problem.n_units) * n_runs // problem.n_units].astype(np.int64)


def random_cuts(problem: Problem, n_cuts: int, rng: np.random.Generator) -> IntArray:
    """(n_cuts,) distinct random cut points, ascending."""
    inner = np.arange(1, problem.n_units)
    cuts: IntArray = np.sort(rng.choice(inner, n_cuts, replace=False))
    return cuts


def fill_runs(problem: Problem, cuts: IntArray, devices: IntArray) -> IntArray:
    """(n_units,) the device of each unit's run, of (n_cuts + 1,) devices."""
    assignment: IntArray = devices[np.searchsorted(cuts, np.arange(problem.n_units), side="right")]
    return assignment


def sample_placements(problem: Problem, n: int, rng: np.random.Generator) -> list[IntArray]:
    """Draw up to ``n`` distinct placements on several devices, by runs and by units in turn."""
    placements: dict[bytes, IntArray] = {}
    # Attempts are limited, as a small problem may have fewer than n.
    for attempt in range(20 * n):
        if len(placements) == n:
            break
        # Runs have few transfers, units many: a fit of costs needs both.
        proposal = random_runs(problem, rng) if attempt % 2 else random_units(problem, rng)
        assignment = problem.move_unsupported(proposal)
        if len(np.unique(assignment)) > 1:
            placements.setdefault(assignment.tobytes(), assignment)
    return list(placements.values())
