"""BIDENT's placement: a shortest path over units in order and the devices of each.

Kim et al. 2026, arXiv 2606.05271; its sequential form, as HETERO overlaps nothing.
"""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.repair import RepairPrices, repair
from placement_gym.solvers.tasks import Tasks


def shortest_path(problem: Problem, costs: CostTable) -> IntArray:
    """Place units by the shortest path through a layer of devices for each unit in order.

    A node costs the unit's time on the device. An edge to another device costs a submodel and the
    transfers of all tensors that are made before it and read after it, our choice for graphs with
    branches. The path is the optimum of a chain without memory limits. Elsewhere it is an
    approximation: a tensor that passes over a run on another device moves twice, so that the path
    is about as long as its latency or longer. Devices that hold too much are repaired.

    Args:
        problem: Units in topological order, devices, support and limits.
        costs: Costs of the units' operators, of a serial schedule.

    Returns:
        (n_units,) devices.
    """
    tasks = Tasks.of_units(problem.units, costs)
    apart = 1.0 - np.eye(len(problem.devices))
    switch_ms = live_transfers_ms(tasks) + costs.submodel_ms * apart
    node_ms = np.where(problem.possible, tasks.ms, np.inf)
    # Least length of a path to each device of a unit, and the device of the unit before on it.
    length_ms, before = node_ms[0] + costs.submodel_ms, np.empty(node_ms.shape, dtype=np.int64)
    for unit in range(1, len(node_ms)):
        arriving_ms = length_ms[:, None] + switch_ms[unit - 1]
        before[unit] = arriving_ms.argmin(axis=0)
        length_ms = arriving_ms.min(axis=0) + node_ms[unit]
    device = np.full(problem.n_units, length_ms.argmin())
    for unit in range(len(node_ms) - 1, 0, -1):
        device[unit - 1] = before[unit, device[unit]]
    device = problem.where_supported(device)
    return repair(problem, device[None], RepairPrices.of(problem, costs))[0]


def live_transfers_ms(tasks: Tasks) -> FloatArray:
    """(n_units - 1, n_devices, n_devices) transfers after each unit but the last one, ms.

    Those of all tensors of which one end is at most that unit and another one is later.
    """
    tensor, maker, reader = tasks.readings
    ends = np.stack([maker, reader])
    first, last = np.full(len(tasks.tensor), len(tasks)), np.zeros(len(tasks.tensor), dtype=int)
    np.minimum.at(first, tensor, ends.min(axis=0))
    np.maximum.at(last, tensor, ends.max(axis=0))
    change_ms = np.zeros((len(tasks), *tasks.transfer_ms.shape[1:]))
    np.add.at(change_ms, first, tasks.transfer_ms)
    np.subtract.at(change_ms, last, tasks.transfer_ms)
    # A difference of sums may be a rounding error below zero.
    live_ms: FloatArray = np.maximum(np.cumsum(change_ms, axis=0)[:-1], 0.0)
    return live_ms
