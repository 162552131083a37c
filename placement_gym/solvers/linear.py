"""Building a linear program block by block, for HiGHS."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array

from placement_gym.arrays import FloatArray, IntArray

GAP = 1e-6
FEASIBLE = 2
NOTHING_FEASIBLE = (
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
)


@dataclass(frozen=True)
class Optimum:
    """What HiGHS found.

    Attributes:
        values: (n_columns,) of the best feasible point found; None if there is none.
        bound: No feasible point has a lower objective, which is never negative; infinite if there
            is none.
        proven: Whether the best point reaches the bound, to the solver's gap.
    """

    values: FloatArray | None
    bound: float
    proven: bool


class Linear:
    """A linear program built from blocks of variables and constraints."""

    def __init__(self) -> None:
        self.cost: list[FloatArray] = []
        self.lower: list[FloatArray] = []
        self.upper: list[FloatArray] = []
        self.whole: list[FloatArray] = []
        self.n = 0
        self.rows: list[IntArray] = []
        self.columns: list[IntArray] = []
        self.values: list[FloatArray] = []
        self.low: list[FloatArray] = []
        self.high: list[FloatArray] = []
        self.n_rows = 0

    def variables(
        self,
        *shape: int,
        cost: ArrayLike = 0.0,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        whole: bool = False,
    ) -> IntArray:
        """Add a block of variables.

        Args:
            shape: Shape of the block.
            cost: Coefficients in the objective, which is minimised.
            lower: Minimum values.
            upper: Maximum values.
            whole: Whether the variables must be integers.

        Returns:
            Columns of the variables, in that shape.
        """
        size = int(np.prod(shape))
        self.cost.append(broadcast_flat(cost, shape))
        self.lower.append(broadcast_flat(lower, shape))
        self.upper.append(broadcast_flat(upper, shape))
        self.whole.append(np.full(size, float(whole)))
        block = np.arange(self.n, self.n + size).reshape(shape)
        self.n += size
        return block

    def require(
        self,
        *terms: tuple[IntArray, ArrayLike],
        rows: int,
        low: ArrayLike = -np.inf,
        high: ArrayLike = 0.0,
    ) -> None:
        """Add ``rows`` constraints: ``low`` <= sum of the terms <= ``high``.

        Args:
            terms: Columns, the same number for each row, and their coefficients.
            rows: Number of constraints.
            low: (rows,) or one for all.
            high: (rows,) or one for all.
        """
        for columns, coefficients in terms:
            self.columns.append(columns.ravel())
            self.values.append(broadcast_flat(coefficients, columns.shape))
            numbers = np.arange(self.n_rows, self.n_rows + rows)
            self.rows.append(np.repeat(numbers, columns.size // max(rows, 1)))
        self.low.append(broadcast_flat(low, (rows,)))
        self.high.append(broadcast_flat(high, (rows,)))
        self.n_rows += rows

    def minimize(
        self,
        time_limit_s: float = 60.0,
        start: tuple[IntArray, ArrayLike] | None = None,
        max_nodes: int | None = None,
    ) -> Optimum:
        """Minimise the objective; at a limit return the best point so far and the bound.

        Args:
            time_limit_s: Wall-clock limit.
            start: Columns and values of a point to start from, which the solver completes.
            max_nodes: Limit of the nodes of the search tree, which unlike time is reproducible.
        """
        solver = self.open()
        if start is not None:
            columns, values = start
            values = broadcast_flat(values, columns.shape)
            solver.setSolution(len(columns), columns.astype(np.int32), values)
        if max_nodes is not None:
            solver.setOptionValue("mip_max_nodes", max_nodes)
        return self.run(solver, time_limit_s)

    def open(self, whole: bool = True) -> highspy.Highs:
        """Hand the program to a new solver, with integers or without."""
        solver = highspy.Highs()
        solver.silent()
        solver.setOptionValue("mip_rel_gap", GAP)
        program = self.to_highs()
        if not whole:
            program.integrality_ = []
        solver.passModel(program)
        return solver

    def run(self, solver: highspy.Highs, time_limit_s: float, whole: bool = True) -> Optimum:
        """Run a solver that ``open`` has made."""
        solver.setOptionValue("time_limit", solver.getRunTime() + float(time_limit_s))
        solver.run()
        info, status = solver.getInfo(), solver.getModelStatus()
        if status in NOTHING_FEASIBLE:
            return Optimum(None, np.inf, proven=False)
        proven = status == highspy.HighsModelStatus.kOptimal
        if whole and self.has_integers:
            bound = info.mip_dual_bound
        else:
            bound = info.objective_function_value if proven else -np.inf
        found = info.primal_solution_status == FEASIBLE
        best = np.array(solver.getSolution().col_value) if found else None
        return Optimum(best, max(bound, 0.0), proven)

    def to_highs(self) -> highspy.HighsLp:
        """Convert to the form that HiGHS reads."""
        where = np.concatenate(self.rows), np.concatenate(self.columns)
        matrix = coo_array((np.concatenate(self.values), where), (self.n_rows, self.n)).tocsr()
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = self.n, self.n_rows
        program.col_cost_ = np.concatenate(self.cost)
        program.col_lower_, program.col_upper_ = map(np.concatenate, (self.lower, self.upper))
        program.row_lower_, program.row_upper_ = map(np.concatenate, (self.low, self.high))
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = matrix.indptr.astype(np.int32)
        program.a_matrix_.index_ = matrix.indices.astype(np.int32)
        program.a_matrix_.value_ = matrix.data
        program.integrality_ = [
            highspy.HighsVarType.kInteger if whole else highspy.HighsVarType.kContinuous
            for whole in np.concatenate(self.whole)
        ]
        return program

    @property
    def has_integers(self) -> bool:
        return any(block.any() for block in self.whole)


def broadcast_flat(values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Broadcast values to a shape and flatten them."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), shape).ravel()
