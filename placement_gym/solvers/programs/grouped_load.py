"""Lower bounds on the load of a pipeline: equal devices in groups, whose number grows."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.highs import GAP, Solver, minimize
from placement_gym.solvers.kinds import interchangeable_devices
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.milp import read_assignment
from placement_gym.solvers.pipelines.pipeline import find_largest_load_ms
from placement_gym.solvers.solution import ROUNDING, Solution, reaches
from placement_gym.solvers.tasks import Tasks, mean_load_ms

MIN_POSITIVE_MS = np.finfo(np.float64).tiny
"""In place of a largest time of zero, by which others are divided."""


class Group(NamedTuple):
    """Equal devices whose loads are added up."""

    kind: int
    devices: list[int]


def grouped_load(
    problem: Problem,
    costs: CostTable,
    time_limit_s: float = 60.0,
    upper_ms: float = np.inf,
    lower_ms: float = 0.0,
) -> Solution:
    """Bound the maximum load of every placement, contiguous or not.

    The devices of a kind, sorted by compute, are cut into groups. The program places units in
    groups: a tensor that crosses the border of a group is paid for by some member, what moves
    within is free, and the largest load of a member is at least the mean. The largest group is
    divided until every device is alone, where the program is exact, or the time is up.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        time_limit_s: Wall-clock limit of all programs together.
        upper_ms: A load that some placement reaches: only smaller ones are searched, and the bound
            does not exceed it.
        lower_ms: A bound to begin with.
    """
    end = perf_counter() + time_limit_s
    groups = first_groups(problem, costs)
    least_ms = least_loads_of_kinds(problem, costs, groups, perf_counter() + time_limit_s / 4)
    bound_ms = lower_ms
    while True:
        # A program that is not exact gets half of the time left: a finer one follows.
        exact = max(len(group.devices) for group in groups) == 1
        left_s = end - perf_counter()
        program, x = build_program(problem, costs, groups, bound_ms, upper_ms, least_ms)
        result = minimize(program, max(left_s if exact else left_s / 2, 0.1))
        bound_ms = min(max(bound_ms, result.bound), upper_ms)
        if exact and result.values is not None:
            device = np.array([group.devices[0] for group in groups])
            assignment = device[read_assignment(result.values, x)]
            if not problem.infeasibility(assignment):
                load_ms = find_largest_load_ms(problem, costs, assignment)
                bound_ms = min(bound_ms, load_ms)
                return Solution(assignment, bound_ms, reaches(load_ms, bound_ms))
        if exact or bound_ms >= upper_ms * (1.0 - GAP) or perf_counter() > end:
            return Solution(None, bound_ms, proven=False)
        groups = split_largest(groups)


def first_groups(problem: Problem, costs: CostTable) -> list[Group]:
    """One group for each kind of host, and two for other kinds: one device, and the others."""
    groups = []
    for kind, devices in enumerate(interchangeable_devices(problem, costs)):
        pays = costs.boundary_ms[:, devices[0]].any()
        parts = [devices[:1], devices[1:]] if pays else [devices]
        groups += [Group(kind, part) for part in parts if part]
    return groups


def split_largest(groups: list[Group]) -> list[Group]:
    """Halve the largest group, the last one of its size."""
    sizes = [len(group.devices) for group in groups]
    at = len(sizes) - 1 - int(np.argmax(sizes[::-1]))
    kind, devices = groups[at]
    half = len(devices) // 2
    parts = [Group(kind, devices[:half]), Group(kind, devices[half:])]
    return [*groups[:at], *parts, *groups[at + 1 :]]


def build_program(
    problem: Problem,
    costs: CostTable,
    groups: list[Group],
    lower_ms: float,
    upper_ms: float,
    least_ms: FloatArray,
) -> tuple[Linear, IntArray]:
    """Build the program; returns it with the (n_units, n_groups) columns x that place a unit.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        groups: The groups.
        lower_ms: A bound.
        upper_ms: A load that some placement reaches.
        least_ms: (n_units, n_kinds) least load of a device of a kind that has the unit.
    """
    tasks = Tasks.of_units(problem.units, costs)
    device = np.array([group.devices[0] for group in groups])
    size = np.array([len(group.devices) for group in groups])
    n, g = problem.n_units, len(groups)
    program = Linear(about_ms=max(lower_ms, mean_load_ms(problem, tasks)))
    x = program.variables(n, g, upper=problem.possible[:, device], whole=True)
    upper_ms = max(upper_ms * (1.0 + ROUNDING), lower_ms)
    total = program.variables(1, cost=1.0, lower=lower_ms, upper=upper_ms, in_ms=True)
    program.require((x, 1.0), rows=n, low=1.0, high=1.0)
    # Bytes as shares of the largest unit, or the solver's tolerances would be far larger than one.
    limit = problem.limits_bytes[device] * size
    limited = np.flatnonzero(np.isfinite(limit))
    scale = max(problem.unit_bytes.max(), 1.0)
    unit_shares = problem.unit_bytes / scale
    program.require((x.T[limited], unit_shares), rows=len(limited), high=limit[limited] / scale)
    # The members' loads together are at most as many times the largest: the relaxation.
    work = tasks.ms[:, device]
    terms = [(x.T, work.T), (np.repeat(total, g), -size.astype(np.float64))]
    border_ms = costs.boundary_ms[tasks.tensor][:, device]
    program.require(*terms, (add_borders(program, x, tasks, border_ms).T, border_ms.T), rows=g)
    # Rows of single units: a device that has the unit has at least this load.
    kind = [group.kind for group in groups]
    program.require((x, least_ms[:, kind]), (np.repeat(total, n), -1.0), rows=n)
    # Groups of one kind are interchangeable but for their sizes: an order removes mirror images.
    for first in range(g - 1):
        if groups[first].kind == groups[first + 1].kind:
            pair = x[:, [first, first + 1]].T, work[:, [first, first + 1]].T
            require_order(program, *pair, size[[first, first + 1]])
    return program, x


def least_loads_of_kinds(
    problem: Problem, costs: CostTable, groups: list[Group], end: float
) -> FloatArray:
    """(n_units, n_kinds) least load of a device of each kind that has the unit, ms."""
    tasks = Tasks.of_units(problem.units, costs)
    first = {group.kind: group.devices[0] for group in reversed(groups)}
    border_ms = costs.boundary_ms[tasks.tensor]
    kinds = [
        least_loads(problem, tasks, border_ms[:, first[kind]], first[kind], end)
        for kind in sorted(first)
    ]
    return np.stack(kinds, axis=1)


def least_loads(
    problem: Problem, tasks: Tasks, border_ms: FloatArray, device: int, end: float
) -> FloatArray:
    """(n_units,) least time of any set of units that contains each unit, borders included, in ms.

    This is a minimum cut: another unit joins the set if its tensors would cost more at the border
    than the unit's own time. Once the time is up, it is a unit's own time.

    Args:
        problem: Units, devices and support; memory does not matter.
        tasks: The units.
        border_ms: (n_tensors,) cost of each tensor that crosses the border.
        device: The device.
        end: When to stop, by ``perf_counter``.
    """
    possible = problem.possible[:, device]
    least = np.where(possible, tasks.ms[:, device], 0.0)
    if not border_ms.any():
        return least
    program = Linear()
    x = program.variables(problem.n_units, cost=least, upper=possible)
    crosses = program.variables(len(border_ms), cost=border_ms)
    tensor, maker, reader = tasks.readings
    program.require_differences(x[maker], x[reader], crosses[tensor])
    solver = Solver(program, program.first_unit_ms, whole=False)
    for unit in np.flatnonzero(possible):
        if perf_counter() > end:
            break
        solver.highs.changeColBounds(int(x[unit]), 1.0, 1.0)
        result = solver.run(end - perf_counter())
        if result.proven:
            least[unit] = max(least[unit], result.bound)
        solver.highs.changeColBounds(int(x[unit]), 0.0, 1.0)
    return least


def add_borders(program: Linear, x: IntArray, tasks: Tasks, border_ms: FloatArray) -> IntArray:
    """(n_tensors, n_groups) columns that are 1 where a tensor crosses the border of a group."""
    tensor, maker, reader = tasks.readings
    crosses = program.variables(*border_ms.shape, upper=1.0)
    paying = np.flatnonzero(border_ms.any(axis=0))
    maker_columns, reader_columns, crossing = (
        block[:, paying] for block in (x[maker], x[reader], crosses[tensor])
    )
    program.require_differences(maker_columns, reader_columns, crossing)
    return crosses


def require_order(program: Linear, x: IntArray, work: FloatArray, size: IntArray) -> None:
    """Let the mean compute of the first of two groups, (2, n_units), be at least the second's."""
    first, second = work / max(work.max(), MIN_POSITIVE_MS) / size[:, None]
    program.require((x[0], -first), (x[1], second), rows=1)
