"""The largest load of a pipeline as a mixed-integer program, with contiguous stages or without.

These are the programs of Tarnawski et al. (2020, section 5), solved by HiGHS.
"""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, IntArray, now_s
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import (
    GAP,
    Linear,
    Solution,
    interchangeable_devices,
    minimize,
    reaches,
    read_assignment,
)
from placement_gym.solvers.pipelines import Forward, find_largest_load_ms
from placement_gym.solvers.programs.load_program import build_program, least_loads_of_kinds


def max_load(
    problem: Problem,
    costs: CostTable,
    start: IntArray | None,
    lower_ms: float = 0.0,
    time_limit_s: float = 60.0,
    contiguous: bool = False,
) -> Solution:
    """Minimise the largest load of a device under support and memory limits.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        start: (n_units,) a feasible assignment, contiguous if this is asked for; only better ones
            are searched for. None if none is known.
        lower_ms: A bound to begin with.
        time_limit_s: Wall-clock limit, after which the best placement so far and the bound are
            returned.
        contiguous: Whether no path of the forward pass may leave a device and return to it. Two
            devices may still send to each other, which no chain of ideals does, so that the
            optimum may be below that of ``exact_pipeline``.
    """
    end = now_s() + time_limit_s
    best_ms = np.inf if start is None else find_largest_load_ms(problem, costs, start)
    if reaches(best_ms, lower_ms, GAP):
        return Solution(start, min(lower_ms, best_ms), proven=True)
    kinds = interchangeable_devices(problem, costs)
    least_ms = least_loads_of_kinds(problem, costs, kinds, now_s() + time_limit_s / 8)
    program, x = build_program(problem, costs, kinds, lower_ms, best_ms, least_ms)
    if contiguous:
        require_contiguous(program, x, Forward.of(problem.units))
    begin = None
    if start is not None:
        begin = x[np.arange(len(x)), sort_alike(start, kinds, costs.unit_ms(problem.units))], 1.0
    result = minimize(program, max(end - now_s(), 0.1), begin)
    best = start
    if result.values is not None:
        assignment = read_assignment(result.values, x)
        load_ms = find_largest_load_ms(problem, costs, assignment)
        if load_ms < best_ms and not problem.infeasibility(assignment):
            best, best_ms = assignment, load_ms
    bound_ms = min(max(result.bound, lower_ms), best_ms)
    return Solution(best, bound_ms, reaches(best_ms, bound_ms))


def require_contiguous(program: Linear, x: IntArray, forward: Forward) -> None:
    """Require that no path leaves a device and returns to it.

    ``before`` marks nodes from which some path leads to the device. An edge that leaves the device
    must not lead to such a node.

    Args:
        program: What rows are added to.
        x: (n_units, n_devices) columns that place a unit.
        forward: The graph of paths; units of a node are on one device.
    """
    first = np.unique(forward.node, return_index=True)[1]
    program.require((x, 1.0), (x[first[forward.node]], -1.0), rows=x.size, low=0.0)
    on, (source, target) = x[first], forward.edge_index
    before = program.variables(*on.shape, upper=1.0)
    program.require((on, 1.0), (before, -1.0), rows=on.size)
    rows = len(source) * x.shape[1]
    program.require((before[target], 1.0), (before[source], -1.0), rows=rows)
    leaves = (on[source], 1.0), (on[target], -1.0)
    program.require((before[target], 1.0), *leaves, rows=rows, high=1.0)


def sort_alike(assignment: IntArray, kinds: list[list[int]], unit_ms: FloatArray) -> IntArray:
    """(n_units,) the same assignment with devices of a kind exchanged, more work first.

    Args:
        assignment: (n_units,) devices.
        kinds: Devices of each kind.
        unit_ms: (n_units, n_devices) times.
    """
    work = np.bincount(
        assignment, unit_ms[np.arange(len(assignment)), assignment], unit_ms.shape[1]
    )
    renamed = np.arange(unit_ms.shape[1])
    for alike in kinds:
        renamed[np.array(alike)[np.argsort(-work[alike], kind="stable")]] = alike
    return renamed[assignment]
