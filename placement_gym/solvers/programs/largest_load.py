"""Mixed-integer programs of a pipeline's largest load (Tarnawski et al. 2020, section 5)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from placement_gym.base import FloatArray, IntArray, now_s
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import (
    GAP,
    ROUNDING,
    Linear,
    Solution,
    Solver,
    Tasks,
    add_placement,
    interchangeable_devices,
    mean_load_ms,
    minimize,
    reaches,
)
from placement_gym.solvers.pipelines import Forward, find_largest_load_ms

MIN_POSITIVE_MS = np.finfo(np.float64).tiny
"""Replaces a largest time of zero, by which others are divided."""


def max_load(
    problem: Problem,
    costs: CostTable,
    start: IntArray | None,
    lower_ms: float = 0.0,
    time_limit_s: float = 60.0,
    contiguous: bool = False,
) -> Solution:
    """Minimise the largest load of a device under support and memory limits.

    Only placements better than ``start``, (n_units,) and feasible, are searched for; ``lower_ms``
    is a known lower bound. At the wall-clock limit, returns the best placement and bound so far.

    If ``contiguous``, which ``start`` must be as well, no path of the forward pass may leave a
    device and return to it. Two devices may still send to each other, unlike in a chain of ideals,
    so the optimum may be below that of ``exact_pipeline``.
    """
    end = now_s() + time_limit_s
    best_ms = np.inf if start is None else find_largest_load_ms(problem, costs, start)
    if reaches(best_ms, lower_ms, GAP):
        return Solution(start, min(lower_ms, best_ms), proven=True)
    kinds = interchangeable_devices(problem, costs)
    least_ms = least_loads_of_kinds(problem, costs, kinds, now_s() + time_limit_s / 8)
    program, x = build_program(problem, costs, kinds, lower_ms, best_ms, least_ms)
    if contiguous:
        require_contiguous(program, x, Forward.from_units(problem.units))
    begin = None
    if start is not None:
        begin = x[np.arange(len(x)), sort_alike(start, kinds, costs.unit_ms(problem.units))], 1.0
    result = minimize(program, max(end - now_s(), 0.1), begin)
    best = start
    if result.values is not None:
        assignment = result.values[x].argmax(axis=1)
        load_ms = find_largest_load_ms(problem, costs, assignment)
        if load_ms < best_ms and not problem.infeasibility(assignment):
            best, best_ms = assignment, load_ms
    bound_ms = min(max(result.bound, lower_ms), best_ms)
    return Solution(best, bound_ms, reaches(best_ms, bound_ms))


def require_contiguous(program: Linear, x: IntArray, forward: Forward) -> None:
    """Require that no path leaves a device and returns to it; a node's units share a device.

    ``before`` marks nodes from which a path leads to the device. No edge that leaves the device may
    lead to such a node.
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
    """(n_units,) the assignment with devices of a kind exchanged, more work first."""
    each_ms, n_devices = unit_ms[np.arange(len(assignment)), assignment], unit_ms.shape[1]
    work, renamed = np.bincount(assignment, each_ms, n_devices), np.arange(n_devices)
    for alike in kinds:
        renamed[np.array(alike)[np.argsort(-work[alike], kind="stable")]] = alike
    return renamed[assignment]


def build_program(
    problem: Problem,
    costs: CostTable,
    kinds: list[list[int]],
    lower_ms: float,
    upper_ms: float,
    least_ms: FloatArray,
) -> tuple[Linear, IntArray]:
    """Build the program; returns it with the (n_units, n_devices) columns x that place a unit.

    Some placement reaches ``upper_ms``; ``least_ms`` is (n_units, n_kinds), the least load of a
    device of a kind that has the unit.
    """
    tasks = Tasks.from_units(problem.units, costs)
    n, d = problem.n_units, len(problem.devices)
    program = Linear(about_ms=max(lower_ms, mean_load_ms(problem, tasks)))
    x = add_placement(program, problem)
    upper_ms = max(upper_ms * (1.0 + ROUNDING), lower_ms)
    largest = program.variables(1, cost=1.0, lower=lower_ms, upper=upper_ms, in_ms=True)
    # A device's load is its work and the tensors that cross its border, whose columns are 1.
    tensor, maker, reader = tasks.readings
    border_ms = costs.boundary_ms[tasks.tensor]
    crosses, paying = program.variables(*border_ms.shape, upper=1.0), border_ms.any(axis=0)
    program.require_differences(
        x[maker][:, paying], x[reader][:, paying], crosses[tensor][:, paying]
    )
    work, transfers = (x.T, tasks.ms.T), (crosses.T, border_ms.T)
    program.require(work, transfers, (np.repeat(largest, d), -1.0), rows=d)
    # Rows of single units: a device that has the unit has at least this load.
    kind_of = np.empty(d, dtype=np.int64)
    for kind, devices in enumerate(kinds):
        kind_of[devices] = kind
    program.require((x, least_ms[:, kind_of]), (np.repeat(largest, n), -1.0), rows=n)
    # Devices of a kind are interchangeable: ordering them by work removes mirror images.
    for devices in kinds:
        for one, other in pairwise(devices):
            work_ms = tasks.ms[:, [one, other]].T
            first, second = work_ms / max(work_ms.max(), MIN_POSITIVE_MS)
            program.require((x[:, one], -first), (x[:, other], second), rows=1)
    return program, x


def least_loads_of_kinds(
    problem: Problem, costs: CostTable, kinds: list[list[int]], end: float
) -> FloatArray:
    """(n_units, n_kinds) least load of a device of each kind that has the unit, in ms.

    A minimum cut: another unit joins if its tensors would cost more at the border than its own
    time. Once the time is up, only the unit's time counts.
    """
    tasks = Tasks.from_units(problem.units, costs)
    tensor, maker, reader = tasks.readings
    columns = []
    for device, *_ in kinds:
        possible, border_ms = problem.possible[:, device], costs.boundary_ms[tasks.tensor, device]
        least = np.where(possible, tasks.ms[:, device], 0.0)
        columns.append(least)
        if not border_ms.any():
            continue
        program = Linear()
        x = program.variables(problem.n_units, cost=least, upper=possible)
        crosses = program.variables(len(border_ms), cost=border_ms)
        program.require_differences(x[maker], x[reader], crosses[tensor])
        solver = Solver(program, whole=False)
        for unit in np.flatnonzero(possible):
            if now_s() > end:
                break
            solver.highs.changeColBounds(int(x[unit]), 1.0, 1.0)
            result = solver.run(end - now_s())
            if result.proven:
                least[unit] = max(least[unit], result.bound)
            solver.highs.changeColBounds(int(x[unit]), 0.0, 1.0)
    return np.stack(columns, axis=1)
