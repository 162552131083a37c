"""The load of devices in a steady pipeline."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.graph.submodels import count_stages
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.tasks import Tasks


def find_largest_load_ms(problem: Problem, costs: CostTable, assignment: IntArray) -> float:
    """The largest load of a device, its stages and tensors that leave or enter it included."""
    tasks = Tasks.of_units(problem.units, costs)
    load = np.bincount(
        assignment, tasks.ms[np.arange(len(assignment)), assignment], len(problem.devices)
    )
    tensor, reader = tasks.tensors.readings()
    here, there = assignment[tasks.tensors.source[tensor]], assignment[reader]
    ends = np.concatenate([np.stack([tensor, here]), np.stack([tensor, there])], axis=1)
    crossing, device = np.unique(ends[:, np.tile(here != there, 2)], axis=1)
    np.add.at(load, device, costs.boundary_ms[tasks.tensor[crossing], device])
    if not costs.submodel_ms.any():
        return float(load.max())
    graph, on = problem.units.graph, assignment[problem.units.of_operator]
    return float((load + count_stages(graph, on, len(load)) * costs.submodel_ms).max())
