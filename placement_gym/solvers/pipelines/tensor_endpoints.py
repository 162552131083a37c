"""Touch sets: the nodes that make or read a tensor."""

from __future__ import annotations

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.tasks import Tasks


def find_endpoint_times(
    problem: Problem, costs: CostTable, node: IntArray
) -> dict[frozenset[int], FloatArray]:
    """Find the touch sets of several nodes whose tensors cost time.

    Args:
        problem: Units and devices.
        costs: Costs of the units' operators.
        node: (n_units,) node of each unit.

    Returns:
        (n_devices,) time when all tensors of the touch set leave or enter a device.
    """
    tasks = Tasks.of_units(problem.units, costs)
    tensor, reader = tasks.tensors.readings()
    sets = [{source} for source in node[tasks.tensors.source].tolist()]
    for t, target in zip(tensor.tolist(), node[reader].tolist(), strict=True):
        sets[t].add(target)
    total: dict[frozenset[int], FloatArray] = {}
    for nodes, ms in zip(map(frozenset, sets), costs.boundary_ms[tasks.tensor], strict=True):
        if len(nodes) > 1 and ms.any():
            total[nodes] = total.get(nodes, 0.0) + ms
    return total
