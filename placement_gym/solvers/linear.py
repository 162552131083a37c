"""Linear programs, built block by block and solved by HiGHS in a suitable unit of time.

HiGHS compares with absolute tolerances near 1e-6, drops coefficients below 1e-9, and rounds badly
if coefficients exceed the optimum by orders of magnitude. Milliseconds suit most problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log2

import highspy
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array

from placement_gym.base import BoolArray, FloatArray, IntArray, now_s

MIN_OPTIMUM, MAX_OPTIMUM = 1.0, 2.0**17
"""Optima in this range of units are accurate. Hand-tuned: by the solver's absolute tolerances."""
OPTIMUM_BITS = 10
"""Other units than the millisecond make the optimum about two to this power. Hand-tuned: inside the
range above."""
MAX_TIME = 2.0**20
"""Times of more units are lowered to this number: no good placement contains them, and the program
remains a lower bound."""
GAP = 1e-6
"""Relative gap to the bound at which HiGHS stops. Hand-tuned; its default is 1e-4."""
SPARSIFY_RULE = 1 << 14
"""A presolve rule: with it HiGHS 1.10 to 1.15 declares a feasible program of BERT infeasible."""
MAX_UNIT_CHANGES = 10
"""Maximum number of units of time per program. Hand-tuned so a program always ends."""
FEASIBLE_STATUS = 2
"""HiGHS's ``kSolutionStatusFeasible``."""
NOTHING_FEASIBLE = (
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
)


class Linear:
    """A linear program built from blocks of variables and constraints.

    All times are in ms, results included; the solver gets them in a unit in which it is accurate.
    Times are the objective, variables ``in_ms``, and, in constraints on these, both sides and the
    coefficients of other variables. Coefficients far above the optimum are lowered, so the program
    must remain a lower bound for lower times. ``about_ms`` is a positive lower bound of the
    optimum, not far below it; zero if unknown.
    """

    def __init__(self, about_ms: float = 0.0) -> None:
        self.about_ms = about_ms
        self.n = self.n_rows = 0
        # of variables, block by block
        self.cost: list[FloatArray] = []
        self.lower: list[FloatArray] = []
        self.upper: list[FloatArray] = []
        self.whole: list[BoolArray] = []
        self.timed: list[BoolArray] = []
        # of constraints: the rows, columns and values of their coefficients, and both sides
        self.rows: list[IntArray] = []
        self.columns: list[IntArray] = []
        self.values: list[FloatArray] = []
        self.low: list[FloatArray] = []
        self.high: list[FloatArray] = []

    def variables(
        self,
        *shape: int,
        cost: ArrayLike = 0.0,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        whole: bool = False,
        in_ms: bool = False,
    ) -> IntArray:
        """Add a block of variables; return their columns, in that shape.

        The objective, which is minimised, has the coefficients ``cost``, for variables ``in_ms``
        plain numbers. Variables that are ``whole`` must be integers; those ``in_ms`` are times.
        """
        size = int(np.prod(shape))
        self.cost.append(broadcast_flat(cost, shape))
        self.lower.append(broadcast_flat(lower, shape))
        self.upper.append(broadcast_flat(upper, shape))
        self.whole.append(np.full(size, whole))
        self.timed.append(np.full(size, in_ms))
        self.n += size
        return np.arange(self.n - size, self.n).reshape(shape)

    def require(
        self,
        *terms: tuple[IntArray, ArrayLike],
        rows: int,
        low: ArrayLike = -np.inf,
        high: ArrayLike = 0.0,
    ) -> None:
        """Add ``rows`` constraints: ``low`` <= sum of the terms <= ``high``.

        A term is an array of columns, equally many per row, and their coefficients.
        """
        numbers = np.arange(self.n_rows, self.n_rows + rows)
        each = [np.repeat(numbers, columns.size // max(rows, 1)) for columns, _ in terms]
        values = [broadcast_flat(coefficients, columns.shape) for columns, coefficients in terms]
        self.rows.append(np.concatenate(each))
        self.columns.append(np.concatenate([columns.ravel() for columns, _ in terms]))
        self.values.append(np.concatenate(values))
        self.low.append(broadcast_flat(low, (rows,)))
        self.high.append(broadcast_flat(high, (rows,)))
        self.n_rows += rows

    def require_differences(self, first: IntArray, second: IntArray, apart: IntArray) -> None:
        """Require ``apart`` to be at least the absolute difference of two blocks of variables."""
        for sign in (1.0, -1.0):
            self.require((first, sign), (second, -sign), (apart, -1.0), rows=first.size)

    @property
    def first_unit_ms(self) -> float:
        """The initial unit: by the bound, or by the largest coefficient that is a time."""
        if self.about_ms:
            return choose_unit(self.about_ms)
        timed, cost = np.concatenate(self.timed), np.concatenate(self.cost)
        columns, values = np.concatenate(self.columns), np.concatenate(self.values)
        times = self.timed_rows[np.concatenate(self.rows)] & ~timed[columns]
        largest_ms = max(cost[~timed].max(initial=0.0), np.abs(values[times]).max(initial=0.0))
        return choose_unit(float(largest_ms))

    @property
    def timed_rows(self) -> BoolArray:
        """(n_rows,) bool, whether a constraint is about times."""
        timed = np.zeros(self.n_rows, dtype=np.bool_)
        rows, columns = np.concatenate(self.rows), np.concatenate(self.columns)
        timed[rows[np.concatenate(self.timed)[columns]]] = True
        return timed


def broadcast_flat(values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Broadcast values to a shape and flatten them."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), shape).ravel()


def choose_unit(about_ms: float) -> float:
    """A power of two of a millisecond in which an optimum near ``about_ms`` is accurate."""
    if is_accurate(about_ms, 1.0) or not isfinite(about_ms):
        return 1.0
    return float(2.0 ** (int(log2(about_ms)) - OPTIMUM_BITS))


def is_accurate(optimum_ms: float, unit_ms: float) -> bool:
    """Return whether a nonnegative optimum is accurate in this unit."""
    return optimum_ms == 0.0 or MIN_OPTIMUM <= optimum_ms / unit_ms < MAX_OPTIMUM


@dataclass(frozen=True)
class Optimum:
    """The result of HiGHS; times in ms."""

    values: FloatArray | None  # (n_columns,) of the best feasible point; None if there is none
    objective: float  # the solver's value of that point; infinite without one
    bound: float  # lower bound of the objective, at least 0; infinite if nothing is feasible
    # whether the point reaches the bound within the gap, by the solver's own sums: a proof computes
    # the latency of the placement again
    proven: bool
    # (n_rows,) change of the bound per unit of a constraint's right side; None with integers
    prices: FloatArray | None = None


class QuietHighs(highspy.Highs):
    """HiGHS without output; version 1.16 otherwise prints its name for every instance."""

    def enableCallbacks(self) -> None:  # noqa: N802  the first method that its constructor calls
        self.silent()
        super().enableCallbacks()


class Solver:
    """Solves a program, and again after rows were added to it.

    Unless ``whole``, integer variables may be divided.
    """

    def __init__(self, program: Linear, whole: bool = True) -> None:
        self.program = program
        self.whole = whole and any(block.any() for block in program.whole)
        self.limits: tuple[IntArray, FloatArray] | None = None
        self.use_unit(program.first_unit_ms)

    def use_unit(self, unit_ms: float) -> None:
        """Pass the program to HiGHS with times in this unit, a power of two of a ms."""
        program = self.program
        self.unit_ms, self.n_passed = unit_ms, 0
        self.units = np.where(np.concatenate(program.timed), unit_ms, 1.0)
        self.highs = QuietHighs()
        self.highs.setOptionValue("mip_rel_gap", GAP)
        self.highs.setOptionValue("presolve_rule_off", SPARSIFY_RULE)
        # first the variables, then all rows
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = program.n, 0
        cost = np.concatenate(program.cost) / (unit_ms / self.units)
        model.col_cost_ = np.minimum(cost, MAX_TIME)
        model.col_lower_ = np.concatenate(program.lower) / self.units
        model.col_upper_ = np.concatenate(program.upper) / self.units
        if self.whole:
            kinds = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
            model.integrality_ = [kinds[whole] for whole in np.concatenate(program.whole).tolist()]
        self.highs.passModel(model)
        self.pass_new_rows()
        if self.limits is not None:
            self.limit(*self.limits)

    def pass_new_rows(self) -> None:
        """Pass the rows that were added to the program."""
        program = self.program
        if self.n_passed == len(program.low):
            return
        rows, columns, values, low, high = (
            np.concatenate(blocks[self.n_passed :])
            for blocks in (program.rows, program.columns, program.values, program.low, program.high)
        )
        first, self.n_passed = program.n_rows - len(low), len(program.low)
        timed, timed_rows = np.concatenate(program.timed), program.timed_rows
        times = np.clip(values / self.unit_ms, -MAX_TIME, MAX_TIME)
        values = np.where(timed_rows[rows] & ~timed[columns], times, values)
        matrix = coo_array((values, (rows - first, columns)), (len(low), program.n)).tocsr()
        units = np.where(timed_rows[first:], self.unit_ms, 1.0)
        starts, columns = matrix.indptr[:-1].astype(np.int32), matrix.indices.astype(np.int32)
        sides = low / units, high / units
        self.highs.addRows(len(low), *sides, matrix.nnz, starts, columns, matrix.data)

    def limit(self, rows: IntArray, high: FloatArray) -> None:
        """Change upper limits of rows without times in the solver, not in the program."""
        self.limits = rows, high
        for row, most in zip(rows.tolist(), high.tolist(), strict=True):
            self.highs.changeRowBounds(row, -np.inf, most)

    def run(self, time_limit_s: float) -> Optimum:
        """Minimise the objective of the rows passed; the bound is zero if the unit is too long."""
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
            prices = np.array(solution.row_dual)
            prices *= np.where(self.program.timed_rows[: len(prices)], 1.0, unit_ms)
        return Optimum(best, objective, max(bound * unit_ms, 0.0), proven, prices)

    def minimize(self, time_limit_s: float) -> Optimum:
        """Minimise the objective of the current program, in another unit if necessary."""
        self.pass_new_rows()
        result = self.run(time_limit_s)
        if result.values is None or is_accurate(result.objective, self.unit_ms):
            return result
        self.use_unit(choose_unit(result.objective))
        return self.run(time_limit_s)


def minimize(
    program: Linear,
    time_limit_s: float = 60.0,
    start: tuple[IntArray, ArrayLike] | None = None,
    gap: float = GAP,
    max_nodes: int | None = None,
) -> Optimum:
    """Minimise the objective; at a limit return the best point and the bound so far.

    ``start`` has columns and values of a partial point, which the solver completes. It stops at the
    relative distance ``gap`` to the bound, or after ``max_nodes`` search nodes, which unlike time
    are reproducible.
    """
    end = now_s() + time_limit_s
    solver, best = Solver(program), None
    for _ in range(MAX_UNIT_CHANGES):
        solver.highs.setOptionValue("mip_rel_gap", gap)
        if max_nodes is not None:
            solver.highs.setOptionValue("mip_max_nodes", max_nodes)
        if start is not None:
            columns, values = start
            values = broadcast_flat(values, columns.shape) / solver.units[columns]
            solver.highs.setSolution(len(columns), columns.astype(np.int32), values)
        result = solver.run(max(end - now_s(), 0.0))
        best = result if best is None or result.values is not None else best
        if result.values is None or is_accurate(result.objective, solver.unit_ms):
            break
        if now_s() > end:
            break
        solver.use_unit(choose_unit(result.objective))
    assert best is not None
    return best
