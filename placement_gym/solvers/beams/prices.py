"""Prices of the rows of the path-load program, at several limits of memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray
from placement_gym.problem import Problem
from placement_gym.solvers import CuttingPlaneSolver, Optimum, Tasks
from placement_gym.solvers.programs import LoadCuts, PathProgram, tighten

SCALES = (1.0, 0.7, 0.4)
"""Limits of memory at which prices are computed, as shares of the true ones. Hand-tuned."""
MIN_CUT_PRICE = 1e-7
"""Lower prices of cuts count as zero. Hand-tuned: about the solver's tolerance."""


class RowPrices(NamedTuple):
    """Prices of rows, none of them negative: any such prices give a lower bound."""

    first: FloatArray  # (n_tasks,) of the row of a task without inputs
    last: FloatArray  # (n_tasks,) of the row of a task that nothing reads
    reading: FloatArray  # (n_readings,) of the rows of each reading together
    load: FloatArray  # (n_devices,) of the load of a device
    memory: FloatArray  # (n_groups,) ms per byte, of the groups of ``Problem.memory``
    cut: FloatArray  # (n_cuts,) of interval load cuts

    @classmethod
    def from_cuts(cls, problem: Problem, cuts: LoadCuts, price: FloatArray) -> RowPrices:
        """Group the prices of rows by what the rows constrain."""
        built, price = cuts.built, np.abs(price)
        n, d = built.tasks.ms.shape
        n_readings, n_groups = len(built.tasks.tensors.readers), len(problem.memory.limits_bytes)
        sizes = {"first": n, "last": n, "reading": n_readings, "load": d, "memory": n_groups}
        about = {name: np.zeros(size) for name, size in sizes.items()}
        for name, values in about.items():
            for row, numbers in built.rows[name]:
                values[numbers] += price[row : row + len(numbers)]
        about["memory"] /= max(problem.unit_bytes.max(), 1.0)
        cut = np.zeros(len(cuts.added))
        priced = [number for number, (*_, row) in enumerate(cuts.added) if row < len(price)]
        cut[priced] = price[[cuts.added[number][-1] for number in priced]]
        return cls(**about, cut=np.where(cut > MIN_CUT_PRICE, cut, 0.0))


def find_prices(
    problem: Problem, tasks: Tasks, end: float
) -> tuple[LoadCuts, list[RowPrices], float]:
    """Solve the program with divided units at several limits of memory.

    Prices at a lower limit give a better bound for a partial placement that has already used more
    than its share of memory.

    Returns:
        The cuts that were added, prices at each limit that was solved in time, and the bound at
        the true limit in ms: infinite if nothing is feasible.
    """
    built = PathProgram.build(problem, tasks, whole=False)
    solver, cuts = CuttingPlaneSolver(built.program), LoadCuts(built)
    ((first, groups),) = built.rows["memory"]
    rows = first + np.arange(len(groups))
    limits = problem.memory.limits_bytes[groups] / max(problem.unit_bytes.max(), 1.0)
    points: list[Optimum] = []
    for share in SCALES if len(groups) else SCALES[:1]:
        solver.limit(rows, share * limits)
        solved, optimum = tighten(solver, cuts, end)
        if solved is None:
            break
        points.append(solved)
    sets = [
        RowPrices.from_cuts(problem, cuts, point.prices)
        for point in points
        if point.prices is not None
    ]
    return cuts, sets, points[0].bound if points else optimum.bound
