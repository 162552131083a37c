"""First placements of a search: what heuristics propose from the cost table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placement_gym import patterns
from placement_gym.arrays import IntArray
from placement_gym.costs.table import CostTable
from placement_gym.env import DevicePlacementEnv
from placement_gym.problem import Problem
from placement_gym.solvers.list_scheduling import critical_path, heft, m_etf
from placement_gym.solvers.milp import serial_program
from placement_gym.solvers.tasks import Tasks

MILP_S = 1.0
MANY_UNITS = 2_000
"""Above this number only the fast heuristics are asked."""


def propose_heuristics(env: DevicePlacementEnv) -> IntArray:
    """(k, n_units) distinct placements of heuristics, repaired if the environment repairs.

    List schedulers, the best prefix or window for a serial schedule, every single device, and the
    serial program within a second.
    """
    proposed = np.stack(list(list_heuristics(env.problem, env.cost_table())))
    repaired = env.repair_placements(proposed) if env.repair else proposed
    _, first = np.unique(repaired, axis=0, return_index=True)
    return proposed[np.sort(first)]


def list_heuristics(problem: Problem, costs: CostTable) -> Iterator[IntArray]:
    """The placements of ``propose_heuristics``."""
    yield critical_path(problem, costs)
    yield heft(problem, costs)
    if problem.n_units <= MANY_UNITS:
        yield m_etf(problem, costs)
        solved = serial_program(problem, costs, MILP_S).assignment
        if solved is not None:
            yield solved
    for device in range(len(problem.devices)):
        yield problem.single(device)
