"""Starts of searches: placements of heuristics, by the cost table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from agents.static import saved
from placement_gym.base import IntArray, UserError, is_file
from placement_gym.envs import DevicePlacementEnv, placement_env
from placement_gym.problem import FUSION, LEVELS, PRIORITY
from placement_gym.solvers import (
    MANY_UNITS,
    Named,
    RepairPrices,
    Tasks,
    propose_prefixes,
    propose_simple,
    propose_single_devices,
    propose_windows,
    serial_program,
)

HEURISTICS, QUICK, RANDOM = "heuristics", "quick", "random"
CELLS, FEW_CELLS = 16, 6
"""Intervals of the grid of prefixes and windows; the fewer for more than ``MANY_UNITS`` units.
Hand-tuned: each candidate is priced and may be repaired."""
PROGRAM_GAP, PROGRAM_NODES, PROGRAM_S = 0.01, 1, 60.0
"""Limits of the serial program. Hand-tuned: gap and nodes stop it at the same point on every
machine; the seconds only matter on slow ones."""
MANY_VARIABLES = 10_000
"""Units times pairs of devices above which the program is left out. Hand-tuned: larger ones take 17
s and more, and searches end no better with them."""


def propose_starts(env: gym.Env[Any, Any], start: str = HEURISTICS) -> IntArray | None:
    """(k, n_units) placements that a search evaluates first; None for random ones.

    Args:
        env: The environment; nothing is evaluated.
        start: ``"heuristics"``, see ``propose_heuristics``; ``"quick"``, the same without the
            program; ``"random"``; or a placement file.

    Raises:
        UserError: The start is unknown.
        PlacementMismatchError: The placement is of another model or other devices.
    """
    if start == RANDOM:
        return None
    if start in (HEURISTICS, QUICK):
        base = placement_env(env, joint=True)
        return propose_heuristics(base, with_program=start == HEURISTICS)
    if not is_file(start):
        raise UserError(
            f"start must be 'heuristics', 'quick', 'random' or a placement file, not {start!r}"
        )
    placement = saved(env, 0, start).assignment
    remember_starts(placement_env(env, joint=True), {Path(start).name: placement})
    return placement[None]


def remember_starts(env: DevicePlacementEnv, placements: Mapping[str, IntArray]) -> None:
    """Name (n_units,) placements, so a result can say that its finalist is one of them."""
    for name, placement in placements.items():
        env.starts[placement.astype(np.int64).tobytes()] = name


def propose_heuristics(env: DevicePlacementEnv, with_program: bool = True) -> IntArray:
    """(k, n_units) distinct placements, repaired if the environment repairs.

    These are list schedules, the best prefix and window by the sum of times and transfers, every
    single device and, if ``with_program`` and the graph is not large, the serial program's
    placement at the root of its tree, which takes up to ten seconds. Nothing is evaluated, but a
    measured environment is profiled.
    """
    names, placements = zip(*list_heuristics(env, with_program), strict=True)
    assignments = np.stack(placements)
    if env.repair:
        assignments = env.repair_placements(assignments)
    remember_starts(env, dict(zip(names, assignments, strict=True)))
    # heuristics often agree, and repeated placements would cost evaluations
    unique = {placement.tobytes(): placement for placement in assignments}
    return np.stack(list(unique.values()))


def list_heuristics(env: DevicePlacementEnv, with_program: bool) -> Iterator[Named]:
    """The named placements of ``propose_heuristics``."""
    problem, costs = env.problem, env.cost_table()
    is_small = problem.n_units <= MANY_UNITS
    yield from propose_simple(problem, costs, "heft", "critical-path", "m-etf")
    # only the cheapest prefix and window after repair, as each start costs an evaluation
    prices, cells = RepairPrices.from_costs(problem, costs), CELLS if is_small else FEW_CELLS
    prefixes = propose_prefixes(problem, cells)
    windows = propose_windows(problem, cells, inner=True)
    for name, candidates in (("prefix", prefixes), ("window", windows)):
        if len(candidates):
            feasible = env.repair_placements(candidates) if env.repair else candidates
            yield name, feasible[prices.total_ms(feasible).argmin()]
    if with_program and problem.n_units * len(problem.devices) ** 2 <= MANY_VARIABLES:
        found = serial_program(problem, costs, PROGRAM_S, PROGRAM_GAP, PROGRAM_NODES).assignment
        if found is not None:
            yield "milp", found
    for name, assignment in propose_single_devices(problem):
        yield name, problem.move_unsupported(assignment)


def extend_starts(env: DevicePlacementEnv, starts: IntArray) -> IntArray:
    """(k, width) starts of (k, n_units) ones: with default further decisions, and with ranks."""
    if env.layout.alone:
        return starts
    rows = [env.layout.complete(starts), *(extend_with_rank(env, starts, f) for f in (False, True))]
    return np.unique(np.concatenate(rows), axis=0)


def rank_levels(env: DevicePlacementEnv) -> IntArray:
    """(n_units,) levels of equal size by HEFT's upward rank, the longest path highest."""
    tasks = Tasks.in_topological_order(env.problem.units, env.cost_table())
    rank = np.zeros(env.problem.n_units)
    np.maximum.at(rank, tasks.unit, tasks.upward_rank())
    levels = np.empty(len(rank), dtype=np.int64)
    # ranks cluster: levels of equal intervals would be empty
    levels[np.argsort(rank, kind="stable")] = LEVELS * np.arange(len(rank)) // len(rank)
    return levels


def extend_with_rank(env: DevicePlacementEnv, placements: IntArray, fuse: bool) -> IntArray:
    """(k, width) rows of (k, n_units) placements: levels by rank, chains fused if ``fuse``."""
    parts = [placements]
    if PRIORITY in env.decisions:
        parts.append(np.tile(rank_levels(env), (len(placements), 1)))
    if FUSION in env.decisions:
        # edges of units with one reader: fusing these never closes a cycle
        quotient = env.problem.units.quotient
        only = quotient.out_degree()[quotient.edge_index[0]] == 1
        parts.append(np.tile(only.astype(np.int64) * fuse, (len(placements), 1)))
    return np.concatenate(parts, axis=1)
