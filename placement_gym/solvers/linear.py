"""Building a linear program block by block, and the unit of time in which it is accurate.

HiGHS compares with absolute tolerances near 1e-6, drops coefficients below 1e-9, and rounds badly
where coefficients are many orders of magnitude above the optimum. Most problems have optima that
suit it in milliseconds.
"""

from __future__ import annotations

from math import isfinite, log2

import numpy as np
from numpy.typing import ArrayLike

from placement_gym.base import BoolArray, FloatArray, IntArray

MIN_OPTIMUM, MAX_OPTIMUM = 1.0, 2.0**17
"""An optimum in this range of units is accurate. Hand-tuned: by the solver's absolute tolerances.
"""
OPTIMUM_BITS = 10
"""If the unit is not the millisecond, the optimum is about two to this power of units. Hand-tuned:
inside the range above."""
MAX_TIME = 2.0**20
"""Times of more units are lowered to this number: no good placement contains them, and the program
remains a lower bound."""


class Linear:
    """A linear program built from blocks of variables and constraints.

    All times are in ms, results included; the solver sees them in another unit where that is more
    accurate. Times are: the objective; variables that are marked ``in_ms``; and, in constraints on
    these, the coefficients of other variables and both sides. Coefficients far above the optimum
    are lowered, so the program must also be a lower bound for lower times.

    Args:
        about_ms: A positive lower bound of the optimum, not far below it; zero if unknown.
    """

    def __init__(self, about_ms: float = 0.0) -> None:
        self.about_ms = about_ms
        self.cost: list[FloatArray] = []
        self.lower: list[FloatArray] = []
        self.upper: list[FloatArray] = []
        self.whole: list[FloatArray] = []
        self.timed: list[BoolArray] = []
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
        in_ms: bool = False,
    ) -> IntArray:
        """Add a block of variables.

        Args:
            shape: Shape of the block.
            cost: Coefficients in the objective, which is minimised.
            lower: Minimum values.
            upper: Maximum values.
            whole: Whether the variables must be integers.
            in_ms: Whether the variables are times; their cost is then a number.

        Returns:
            Columns of the variables, in that shape.
        """
        size = int(np.prod(shape))
        self.cost.append(broadcast_flat(cost, shape))
        self.lower.append(broadcast_flat(lower, shape))
        self.upper.append(broadcast_flat(upper, shape))
        self.whole.append(np.full(size, float(whole)))
        self.timed.append(np.full(size, in_ms))
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

    def require_differences(self, first: IntArray, second: IntArray, apart: IntArray) -> None:
        """Let each variable of ``apart`` be at least how far those of the other two are apart."""
        for sign in (1.0, -1.0):
            self.require((first, sign), (second, -sign), (apart, -1.0), rows=first.size)

    @property
    def first_unit_ms(self) -> float:
        """The unit to begin with."""
        return choose_unit(self.about_ms or self.largest_ms)

    @property
    def largest_ms(self) -> float:
        """The largest coefficient that is a time, ms."""
        timed, cost = np.concatenate(self.timed), np.concatenate(self.cost)
        columns, values = np.concatenate(self.columns), np.concatenate(self.values)
        times = self.timed_rows[np.concatenate(self.rows)] & ~timed[columns]
        return float(max(cost[~timed].max(initial=0.0), np.abs(values[times]).max(initial=0.0)))

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
    """Return whether a program in this unit finds this nonnegative optimum accurately."""
    return optimum_ms == 0.0 or MIN_OPTIMUM <= optimum_ms / unit_ms < MAX_OPTIMUM
