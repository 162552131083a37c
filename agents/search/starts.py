"""First placements of a search: what heuristics propose from the cost table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from agents.static import saved
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.placement_env import placement_env
from placement_gym.problem import patterns
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.list_scheduling import MANY_UNITS, critical_path, heft, m_etf
from placement_gym.solvers.milp import serial_program
from placement_gym.solvers.repair import RepairPrices

HEURISTICS, QUICK, RANDOM = "heuristics", "quick", "random"
CELLS, FEW_CELLS = 16, 6
PROGRAM_GAP, PROGRAM_NODES, PROGRAM_S = 0.01, 1, 10.0
"""Limits of the serial program: the first two stop it at the same point on every machine."""
VERY_MANY_UNITS = 20_000
"""Above, there is no time for any list schedule; above ``MANY_UNITS``, for programs and m-ETF."""


def propose_starts(env: gym.Env[Any, Any], start: str = HEURISTICS) -> IntArray | None:
    """(k, n_units) placements that a search evaluates first; None for random ones.

    Args:
        env: The environment; nothing is evaluated.
        start: ``"heuristics"``, see ``propose_heuristics``; ``"quick"``:
            those that need no program; ``"random"``; or a placement file.

    Raises:
        UserError: It is none of these.
        PlacementMismatchError: The placement was made for something else.
    """
    if start == RANDOM:
        return None
    if start in (HEURISTICS, QUICK):
        base = placement_env(env, joint=True)
        return propose_heuristics(base, with_program=start == HEURISTICS)
    if not Path(start).is_file():
        raise UserError(
            f"start must be 'heuristics', 'quick', 'random' or a placement file, not {start!r}"
        )
    placement = saved(env, 0, start).assignment
    placement_env(env, joint=True).remember_starts({Path(start).name: placement})
    return placement[None]


def propose_heuristics(env: DevicePlacementEnv, with_program: bool = True) -> IntArray:
    """(k, n_units) distinct placements, repaired if the environment repairs.

    These are list schedules, the best prefix and window by the sum of times and transfers, every
    single device, and, if ``with_program``, the serial program's placement at the root of its tree,
    which takes up to a few seconds. Nothing is evaluated, but a measured environment is profiled.
    """
    names, placements = zip(*list_heuristics(env, with_program), strict=True)
    proposed = np.stack(placements)
    if env.repair:
        proposed = env.repair_placements(proposed)
    env.remember_starts(dict(zip(names, proposed, strict=True)))
    distinct = {one.tobytes(): one for one in proposed}
    return np.stack(list(distinct.values()))


def list_heuristics(env: DevicePlacementEnv, with_program: bool) -> Iterator[tuple[str, IntArray]]:
    """The placements of ``propose_heuristics``, each with its name."""
    problem, costs = env.problem, env.cost_table()
    few, many = problem.n_units <= MANY_UNITS, problem.n_units > VERY_MANY_UNITS
    if not many:
        yield "heft", heft(problem, costs)
        yield "critical-path", critical_path(problem, costs)
    if few:
        yield "m-etf", m_etf(problem, costs)
    yield from choose_patterns(env, RepairPrices.of(problem, costs), CELLS if few else FEW_CELLS)
    if few and with_program:
        yield from solve_serial_program(problem, costs)
    for device, name in enumerate(problem.device_names):
        yield f"{name} alone", problem.where_supported(problem.single(device))


def solve_serial_program(problem: Problem, costs: CostTable) -> Iterator[tuple[str, IntArray]]:
    """The serial program's placement at the root of its tree, if there is one."""
    found = serial_program(problem, costs, PROGRAM_S, PROGRAM_GAP, PROGRAM_NODES).assignment
    if found is not None:
        yield "milp", found


def choose_patterns(
    env: DevicePlacementEnv, prices: RepairPrices, cells: int
) -> Iterator[tuple[str, IntArray]]:
    """The cheapest prefix and the cheapest window, after repair if the environment repairs."""
    cuts = patterns.cut_grid(env.problem, cells)
    prefixes, windows = [(0, cut) for cut in cuts[1:]], list(combinations(cuts[1:], 2))
    for name, intervals in (("prefix", prefixes), ("window", windows)):
        tried = patterns.windows_on_all_pairs(env.problem, intervals)
        if len(tried):
            tried = env.repair_placements(tried) if env.repair else tried
            yield name, tried[prices.total_ms(tried).argmin()]
