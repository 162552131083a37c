"""Building a linear program block by block, for HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from placement_gym.costs.table import FloatArray
from placement_gym.graph.operators import IntArray

GAP = 1e-6
INFEASIBLE = 2


@dataclass(frozen=True)
class Optimum:
    """What HiGHS found.

    Attributes:
        values: (n_columns,) of the best point found; None if there is none.
        bound: No feasible point has a lower objective; infinite if there is none.
        proven: Whether the best point reaches the bound, to the solver's gap.
    """

    values: FloatArray | None
    bound: float
    proven: bool


class Linear:
    """A linear program that grows: blocks of variables, then blocks of constraints on them."""

    def __init__(self) -> None:
        self.cost: list[FloatArray] = []
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
        upper: ArrayLike = np.inf,
        whole: bool = False,
    ) -> IntArray:
        """A block of variables from zero to ``upper``.

        Args:
            shape: Of the block.
            cost: In the objective, which is minimised.
            upper: Largest values.
            whole: Whether they must be integers.

        Returns:
            Their columns, in that shape.
        """
        size = int(np.prod(shape))
        self.cost.append(filled(cost, shape))
        self.upper.append(filled(upper, shape))
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
        """``rows`` constraints: ``low`` <= sum of the terms <= ``high``.

        Args:
            terms: Columns, as many for each row, and their coefficients.
            rows: Number of constraints.
            low: (rows,) or one for all.
            high: (rows,) or one for all.
        """
        for columns, coefficients in terms:
            self.columns.append(columns.ravel())
            self.values.append(filled(coefficients, columns.shape))
            numbers = np.arange(self.n_rows, self.n_rows + rows)
            self.rows.append(np.repeat(numbers, columns.size // max(rows, 1)))
        self.low.append(filled(low, (rows,)))
        self.high.append(filled(high, (rows,)))
        self.n_rows += rows

    def minimum(self, time_limit_s: float = 60.0) -> Optimum:
        """The least cost; at the time limit the best so far and the bound."""
        matrix = coo_array(
            (
                np.concatenate(self.values),
                (np.concatenate(self.rows), np.concatenate(self.columns)),
            ),
            (self.n_rows, self.n),
        )
        found: Any = milp(
            np.concatenate(self.cost),
            integrality=np.concatenate(self.whole),
            bounds=Bounds(0.0, np.concatenate(self.upper)),
            constraints=LinearConstraint(
                matrix.tocsr(), np.concatenate(self.low), np.concatenate(self.high)
            ),
            options={"time_limit": time_limit_s, "mip_rel_gap": GAP},
        )
        if found.status == INFEASIBLE:
            return Optimum(None, np.inf, proven=False)
        stated = found.mip_dual_bound if self.has_integers else found.fun
        bound = 0.0 if stated is None else float(stated)
        return Optimum(found.x, bound, proven=found.status == 0)

    @property
    def has_integers(self) -> bool:
        return any(block.any() for block in self.whole)


def filled(values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """The values in that shape, flat."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), shape).ravel()
