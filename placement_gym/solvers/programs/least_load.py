"""The least load of a device that runs a given unit, whatever else it runs."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from placement_gym.base.arrays import FloatArray
from placement_gym.problem.problem import Problem
from placement_gym.solvers.highs import Solver
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.tasks import Tasks


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
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source[tensor]
    for sign in (1.0, -1.0):
        terms = (x[maker], sign), (x[reader], -sign), (crosses[tensor], -1.0)
        program.require(*terms, rows=len(tensor))
    solver = Solver(program, program.first_unit_ms, whole=False)
    for unit in np.flatnonzero(possible):
        if perf_counter() > end:
            break
        solver.highs.changeColBounds(int(x[unit]), 1.0, 1.0)
        found = solver.run(end - perf_counter())
        if found.proven:
            least[unit] = max(least[unit], found.bound)
        solver.highs.changeColBounds(int(x[unit]), 0.0, 1.0)
    return least
