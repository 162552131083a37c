"""A linear program that is solved again, from its last basis, whenever rows are added."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.solvers.highs import Optimum, Solver
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.time_unit import choose_unit, is_accurate


class CuttingPlaneSolver:
    """Solves a program and, after rows were added to it, solves it again.

    Args:
        program: Integers may be divided; only rows may be added.
    """

    def __init__(self, program: Linear) -> None:
        self.program = program
        self.limits: tuple[IntArray, FloatArray] | None = None
        self.solver = Solver(program, program.first_unit_ms, whole=False)

    def limit(self, rows: IntArray, high: FloatArray) -> None:
        """Change upper limits of rows without times, in the solver and not in the program."""
        self.limits = rows, high
        low = np.full(len(rows), -np.inf)
        self.solver.highs.changeRowsBounds(len(rows), rows.astype(np.int32), low, high)

    def minimize(self, time_limit_s: float) -> Optimum:
        """Minimise the objective of the program as it is now."""
        self.solver.pass_new_rows()
        found = self.solver.run(time_limit_s)
        if found.values is None or is_accurate(found.objective, self.solver.unit_ms):
            return found
        self.solver = Solver(self.program, choose_unit(found.objective), whole=False)
        if self.limits is not None:
            self.limit(*self.limits)
        return self.solver.run(time_limit_s)
