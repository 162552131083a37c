"""The mixed-integer program of the largest load, which ``max_load`` solves."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from placement_gym.base import FloatArray, IntArray, now_s
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import ROUNDING, Linear, Solver, Tasks, limit_memory, mean_load_ms

MIN_POSITIVE_MS = np.finfo(np.float64).tiny
"""In place of a largest time of zero, by which others are divided."""


def build_program(
    problem: Problem,
    costs: CostTable,
    kinds: list[list[int]],
    lower_ms: float,
    upper_ms: float,
    least_ms: FloatArray,
) -> tuple[Linear, IntArray]:
    """Build the program; returns it with the (n_units, n_devices) columns x that place a unit.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        kinds: Devices of each kind, which are interchangeable.
        lower_ms: A bound.
        upper_ms: A load that some placement reaches.
        least_ms: (n_units, n_kinds) least load of a device of a kind that has the unit.
    """
    tasks = Tasks.of_units(problem.units, costs)
    n, d = problem.n_units, len(problem.devices)
    program = Linear(about_ms=max(lower_ms, mean_load_ms(problem, tasks)))
    x = program.variables(n, d, upper=problem.possible, whole=True)
    upper_ms = max(upper_ms * (1.0 + ROUNDING), lower_ms)
    largest = program.variables(1, cost=1.0, lower=lower_ms, upper=upper_ms, in_ms=True)
    program.require((x, 1.0), rows=n, low=1.0, high=1.0)
    limit_memory(program, x, problem.unit_bytes, problem.memory)
    border_ms = costs.boundary_ms[tasks.tensor]
    crosses = add_borders(program, x, tasks, border_ms)
    work, transfers = (x.T, tasks.ms.T), (crosses.T, border_ms.T)
    program.require(work, transfers, (np.repeat(largest, d), -1.0), rows=d)
    # Rows of single units: a device that has the unit has at least this load.
    kind_of = np.empty(d, dtype=np.int64)
    for kind, devices in enumerate(kinds):
        kind_of[devices] = kind
    program.require((x, least_ms[:, kind_of]), (np.repeat(largest, n), -1.0), rows=n)
    # Devices of one kind are interchangeable: an order removes mirror images.
    for devices in kinds:
        for pair in pairwise(devices):
            require_order(program, x[:, pair].T, tasks.ms[:, pair].T)
    return program, x


def least_loads_of_kinds(
    problem: Problem, costs: CostTable, kinds: list[list[int]], end: float
) -> FloatArray:
    """(n_units, n_kinds) least load of a device of each kind that has the unit, ms."""
    tasks = Tasks.of_units(problem.units, costs)
    border_ms = costs.boundary_ms[tasks.tensor]
    columns = [least_loads(problem, tasks, border_ms[:, first], first, end) for first, *_ in kinds]
    return np.stack(columns, axis=1)


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
        end: When to stop, by ``now_s``.
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
        if now_s() > end:
            break
        solver.highs.changeColBounds(int(x[unit]), 1.0, 1.0)
        result = solver.run(end - now_s())
        if result.proven:
            least[unit] = max(least[unit], result.bound)
        solver.highs.changeColBounds(int(x[unit]), 0.0, 1.0)
    return least


def add_borders(program: Linear, x: IntArray, tasks: Tasks, border_ms: FloatArray) -> IntArray:
    """(n_tensors, n_devices) columns that are 1 where a tensor enters or leaves a device."""
    tensor, maker, reader = tasks.readings
    crosses = program.variables(*border_ms.shape, upper=1.0)
    paying = np.flatnonzero(border_ms.any(axis=0))
    maker_columns, reader_columns, crossing = (
        block[:, paying] for block in (x[maker], x[reader], crosses[tensor])
    )
    program.require_differences(maker_columns, reader_columns, crossing)
    return crosses


def require_order(program: Linear, x: IntArray, work: FloatArray) -> None:
    """Let the compute of the first of two devices, (2, n_units), be at least the second's."""
    first, second = work / max(work.max(), MIN_POSITIVE_MS)
    program.require((x[0], -first), (x[1], second), rows=1)
