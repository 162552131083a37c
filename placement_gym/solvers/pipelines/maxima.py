"""The best split where all devices run the forward pass first, and then the backward pass.

That is a pipeline in the way of GPipe: a batch takes the largest forward load and the largest
backward load, of different devices perhaps (Tarnawski et al. 2020).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.pipelines.contiguous import ROUNDING, Split, SplitSearch
from placement_gym.solvers.pipelines.forward import find_endpoint_times
from placement_gym.solvers.pipelines.ideal_stages import forward_part
from placement_gym.solvers.pipelines.pipeline import find_exact, find_linear, narrow


def separate_pipeline(problem: Problem, costs: CostTable, linear: bool = False) -> Split:
    """The contiguous split with the least sum of the largest forward and backward loads.

    For every forward maximum that is worth it, the dynamic programme minimises the backward one.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators; tensors belong to the pass of their operator.
        linear: Whether to split along one order, as ``linear_pipeline``.

    Returns:
        The split, whose ``load_ms`` is that sum.

    Raises:
        UserError: As for ``exact_pipeline``.
    """
    solve = find_linear if linear else find_exact
    search = SplitSearch(problem, costs)
    found = narrow(search, solve)
    best = found._replace(load_ms=float(pass_loads(problem, costs, found.device).max(axis=1).sum()))
    limit_ms = best.load_ms
    # A smaller forward maximum has no smaller backward one: once that alone is too much, none is
    # better.
    while True:
        found = solve(replace(search, forward_ms=limit_ms))
        if found.load_ms >= best.load_ms:
            return best
        largest = pass_loads(problem, costs, found.device).max(axis=1)
        if largest.sum() < best.load_ms:
            best = found._replace(load_ms=float(largest.sum()))
        limit_ms = float(largest[0]) * (1.0 - ROUNDING)


def pass_loads(problem: Problem, costs: CostTable, device: IntArray) -> FloatArray:
    """(2, n_devices) loads of the forward and the backward pass under (n_units,) devices."""
    units, each = problem.units, np.arange(problem.n_units)
    forward_ms = forward_part(problem, costs).unit_ms(units)
    load = np.zeros((2, costs.operator_ms.shape[1]))
    for row, unit_ms, forward in ((0, forward_ms, True), (1, costs.unit_ms(units), False)):
        np.add.at(load[row], device, unit_ms[each, device])
        for nodes, ms in find_endpoint_times(problem, costs, each, forward).items():
            on = np.unique(device[list(nodes)])
            if len(on) > 1:
                load[row, on] += ms[on]
    load[1] -= load[0]
    return load
