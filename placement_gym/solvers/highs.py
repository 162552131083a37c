"""Linear programs solved with HiGHS, in a unit of time that suits it, and again with more rows."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array

from placement_gym.base import FloatArray, IntArray, now_s
from placement_gym.solvers.linear import (
    MAX_TIME,
    MIN_OPTIMUM,
    Linear,
    broadcast_flat,
    choose_unit,
    is_accurate,
)

GAP = 1e-6
"""Relative gap to the bound at which HiGHS stops. Hand-tuned; its own default is 1e-4."""
FEASIBLE_STATUS = 2
"""HiGHS's ``kSolutionStatusFeasible``."""
SPARSIFY_RULE = 1 << 14
"""The rule of HiGHS's presolve with which versions 1.10 to 1.15 hold a program of BERT's operators,
which has a placement, to be infeasible."""
MAX_UNIT_CHANGES = 10
"""Units of time that are tried for one program, at most. Hand-tuned so a program always ends."""
NOTHING_FEASIBLE = (
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
)


@dataclass(frozen=True)
class Optimum:
    """Result of HiGHS, times in ms.

    Attributes:
        values: (n_columns,) of the best feasible point found; None if there is none.
        objective: Of that point, as the solver computes it; infinite without one.
        bound: Lower bound of the objective, at least 0; infinite where nothing is feasible.
        proven: Whether the best point reaches the bound, to the solver's gap. This is what the
            solver says: for a proof, compute the latency of the placement again.
        prices: (n_rows,) change of the bound for each unit of a constraint's right side; None for
            programs with integers.
    """

    values: FloatArray | None
    objective: float
    bound: float
    proven: bool
    prices: FloatArray | None = None


class QuietHighs(highspy.Highs):
    """HiGHS that prints nothing; otherwise version 1.16 prints its name as an instance is made."""

    def enableCallbacks(self) -> None:  # noqa: N802  the first method that its constructor calls
        self.silent()
        super().enableCallbacks()


class Solver:
    """Solves a program, to which rows may be added.

    Args:
        program: See ``Linear``.
        unit_ms: The unit of time, a power of two of a millisecond.
        whole: Whether variables that must be integers may not be divided.
    """

    def __init__(self, program: Linear, unit_ms: float, whole: bool = True) -> None:
        self.program, self.unit_ms = program, unit_ms
        self.whole = whole and any(block.any() for block in program.whole)
        self.units = np.where(np.concatenate(program.timed), unit_ms, 1.0)
        self.highs = QuietHighs()
        self.highs.setOptionValue("mip_rel_gap", GAP)
        self.highs.setOptionValue("presolve_rule_off", SPARSIFY_RULE)
        self.highs.passModel(self.to_highs())
        self.passed = program.n_rows, len(program.rows), len(program.low)

    def limit(self, gap: float, max_nodes: int | None) -> None:
        """See ``minimize``."""
        self.highs.setOptionValue("mip_rel_gap", gap)
        if max_nodes is not None:
            self.highs.setOptionValue("mip_max_nodes", max_nodes)

    def start(self, columns: IntArray, values: ArrayLike) -> None:
        """Start from the values of some columns, which the solver completes."""
        values = broadcast_flat(values, columns.shape) / self.units[columns]
        self.highs.setSolution(len(columns), columns.astype(np.int32), values)

    def pass_new_rows(self) -> None:
        """Pass on the rows that were added to the program."""
        new = self.program.n_rows - self.passed[0]
        if not new:
            return
        matrix, low, high = self.convert_rows(*self.passed)
        starts, columns = matrix.indptr[:-1].astype(np.int32), matrix.indices.astype(np.int32)
        self.highs.addRows(new, low, high, matrix.nnz, starts, columns, matrix.data)
        self.passed = self.program.n_rows, len(self.program.rows), len(self.program.low)

    def run(self, time_limit_s: float) -> Optimum:
        """Minimise the objective.

        Where the unit is too long for the optimum that is found, the bound is zero.
        """
        highs, unit_ms = self.highs, self.unit_ms
        highs.setOptionValue("time_limit", highs.getRunTime() + float(time_limit_s))
        highs.run()
        info, status = highs.getInfo(), highs.getModelStatus()
        if status in NOTHING_FEASIBLE:
            return Optimum(None, np.inf, np.inf, proven=False)
        proven = status == highspy.HighsModelStatus.kOptimal
        reached = info.objective_function_value
        bound = reached if proven else -np.inf
        if self.whole:
            bound = info.mip_dual_bound
        solution = highs.getSolution()
        best, objective = None, np.inf
        if info.primal_solution_status == FEASIBLE_STATUS:
            best, objective = np.array(solution.col_value) * self.units, abs(reached) * unit_ms
            bound = min(bound, reached)
            if 0.0 < abs(reached) < MIN_OPTIMUM:
                bound, proven = 0.0, False
        prices = None
        if solution.dual_valid:
            timed = self.program.timed_rows[: self.passed[0]]
            prices = np.array(solution.row_dual) * np.where(timed, 1.0, unit_ms)
        return Optimum(best, objective, max(bound * unit_ms, 0.0), proven, prices)

    def to_highs(self) -> highspy.HighsLp:
        """Convert the program to the form that HiGHS reads."""
        program = self.program
        matrix, low, high = self.convert_rows()
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = program.n, program.n_rows
        cost = np.concatenate(program.cost) / (self.unit_ms / self.units)
        model.col_cost_ = np.minimum(cost, MAX_TIME)
        model.col_lower_, model.col_upper_ = (
            np.concatenate(side) / self.units for side in (program.lower, program.upper)
        )
        model.row_lower_, model.row_upper_ = low, high
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = matrix.indptr.astype(np.int32)
        model.a_matrix_.index_ = matrix.indices.astype(np.int32)
        model.a_matrix_.value_ = matrix.data
        if self.whole:
            model.integrality_ = [
                highspy.HighsVarType.kInteger if whole else highspy.HighsVarType.kContinuous
                for whole in np.concatenate(program.whole)
            ]
        return model

    def convert_rows(
        self, first: int = 0, terms: int = 0, sides: int = 0
    ) -> tuple[csr_array, FloatArray, FloatArray]:
        """(n_rows, n_columns) coefficients of constraints, and (n_rows,) low and high sides."""
        program = self.program
        rows, columns, values = (
            np.concatenate(blocks[terms:])
            for blocks in (program.rows, program.columns, program.values)
        )
        low, high = (np.concatenate(blocks[sides:]) for blocks in (program.low, program.high))
        timed, timed_rows = np.concatenate(program.timed), program.timed_rows
        times = np.clip(values / self.unit_ms, -MAX_TIME, MAX_TIME)
        values = np.where(timed_rows[rows] & ~timed[columns], times, values)
        matrix = coo_array((values, (rows - first, columns)), (len(low), program.n))
        units = np.where(timed_rows[first:], self.unit_ms, 1.0)
        return matrix.tocsr(), low / units, high / units


def minimize(
    program: Linear,
    time_limit_s: float = 60.0,
    start: tuple[IntArray, ArrayLike] | None = None,
    gap: float = GAP,
    max_nodes: int | None = None,
) -> Optimum:
    """Minimise the objective; at a limit return the best point so far and the bound.

    Args:
        program: Its times may be of any scale.
        time_limit_s: Wall-clock limit.
        start: Columns and values of a point to start from, which the solver completes.
        gap: Relative distance to the bound at which the solver stops.
        max_nodes: Maximum number of nodes of the search tree, which unlike time is reproducible.
    """
    end = now_s() + time_limit_s
    unit_ms, best = program.first_unit_ms, None
    for _ in range(MAX_UNIT_CHANGES):
        solver = Solver(program, unit_ms)
        solver.limit(gap, max_nodes)
        if start is not None:
            solver.start(*start)
        result = solver.run(max(end - now_s(), 0.0))
        best = result if best is None or result.values is not None else best
        if result.values is None or is_accurate(result.objective, unit_ms):
            break
        unit_ms = choose_unit(result.objective)
        if now_s() > end:
            break
    assert best is not None
    return best


class CuttingPlaneSolver:
    """Solves a program whose integers may be divided, and again after rows were added to it."""

    def __init__(self, program: Linear) -> None:
        self.program = program
        self.limits: tuple[IntArray, FloatArray] | None = None
        self.solver = Solver(program, program.first_unit_ms, whole=False)

    def limit(self, rows: IntArray, high: FloatArray) -> None:
        """Change upper limits of rows without times, in the solver and not in the program."""
        self.limits = rows, high
        for row, most in zip(rows.tolist(), high.tolist(), strict=True):
            self.solver.highs.changeRowBounds(row, -np.inf, most)

    def minimize(self, time_limit_s: float) -> Optimum:
        """Minimise the objective of the present program."""
        self.solver.pass_new_rows()
        result = self.solver.run(time_limit_s)
        if result.values is None or is_accurate(result.objective, self.solver.unit_ms):
            return result
        self.solver = Solver(self.program, choose_unit(result.objective), whole=False)
        if self.limits is not None:
            self.limit(*self.limits)
        return self.solver.run(time_limit_s)
