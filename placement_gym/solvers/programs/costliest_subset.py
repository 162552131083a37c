"""The costliest subset of units that a device can run within a load: a program."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from placement_gym.base.arrays import BoolArray, FloatArray
from placement_gym.problem.problem import Problem
from placement_gym.solvers.highs import Solver
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.programs.grouped_load import add_borders
from placement_gym.solvers.tasks import Tasks

WORTH = 2.0**14
"""Worth of all units in the unit of the solver."""
GAP = 1e-4
ROUNDING = 1e-9


class Costliest(NamedTuple):
    """Result at some prices.

    Attributes:
        share: No set of units is worth a larger share of all.
        units: (n_units,) bool, a set that may be worth so much; None if none was found in time.
    """

    share: float
    units: BoolArray | None


class CostliestSubset:
    """Finds the set of units, at most ``most_ms`` on a device, that is worth most.

    Args:
        problem: Units, devices, support and memory limits.
        tasks: The units.
        border_ms: (n_tensors,) what each tensor costs that crosses the border of the set.
        device: The device.
        most_ms: The load that the device may have, borders included.
    """

    def __init__(
        self, problem: Problem, tasks: Tasks, border_ms: FloatArray, device: int, most_ms: float
    ) -> None:
        self.ms, self.border_ms, self.tasks = tasks.ms[:, device], border_ms, tasks
        n, most_ms = problem.n_units, most_ms * (1.0 + ROUNDING)
        possible = problem.possible[:, device] & (self.ms <= most_ms)
        program = Linear(about_ms=most_ms)
        self.inside = program.variables(n, upper=possible, whole=True)
        self.outside = program.variables(n)
        program.require((self.inside, 1.0), (self.outside, 1.0), rows=n, low=1.0, high=1.0)
        load = program.variables(1, upper=most_ms, in_ms=True)
        work = self.inside[None], np.where(possible, self.ms, 0.0)
        crosses = add_borders(program, self.inside[:, None], tasks, border_ms[:, None])
        program.require(work, (crosses.T, border_ms), (load, -1.0), rows=1)
        limit, scale = problem.limits_bytes[device], max(problem.unit_bytes.max(), 1.0)
        if limit < problem.unit_bytes.sum():
            held = self.inside[None], problem.unit_bytes / scale
            program.require(held, rows=1, high=limit / scale)
        self.solver = Solver(program, program.first_unit_ms)
        self.solver.limit(GAP, None)

    def find(self, prices: FloatArray, end: float) -> Costliest:
        """The costliest subset at (n_units,) prices that add up to 1, as far as time permits."""
        self.solver.highs.changeColsCost(len(prices), self.outside.astype(np.int32), prices * WORTH)
        found = self.solver.run(max(end - perf_counter(), 0.0))
        if found.values is None:
            return Costliest(1.0, None)
        share = 1.0 - found.bound / (WORTH * self.solver.unit_ms)
        return Costliest(share, found.values[self.inside] > 0.5)

    def load_ms(self, units: BoolArray) -> float:
        """The load of a set."""
        tensor, reader = self.tasks.tensors.readings()
        apart = units[self.tasks.tensors.source[tensor]] != units[reader]
        return float(self.ms[units].sum() + self.border_ms[np.unique(tensor[apart])].sum())
