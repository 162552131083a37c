"""A linear program that is solved again after each addition of rows, from its last basis."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.solvers.linear import Linear, Optimum


class GrowingSolver:
    """Solves a program and, after rows were added to it, solves it again.

    Args:
        program: Integers may be divided; only rows may be added.
    """

    def __init__(self, program: Linear) -> None:
        self.program = program
        self.solver = program.open(whole=False)
        self.passed = program.n_rows, len(program.rows), len(program.low)

    def limit(self, rows: IntArray, high: FloatArray) -> None:
        """Change the upper limits of rows, here only and not in the program."""
        low = np.full(len(rows), -np.inf)
        self.solver.changeRowsBounds(len(rows), rows.astype(np.int32), low, high)

    def minimize(self, time_limit_s: float) -> Optimum:
        """Minimise the objective of the program as it is now."""
        n_rows, n_terms, n_blocks = self.passed
        new = self.program.n_rows - n_rows
        if new:
            where = np.concatenate(self.program.rows[n_terms:]) - n_rows
            columns = np.concatenate(self.program.columns[n_terms:])
            values = np.concatenate(self.program.values[n_terms:])
            matrix = coo_array((values, (where, columns)), (new, self.program.n)).tocsr()
            low, high = (
                np.concatenate(blocks[n_blocks:])
                for blocks in (self.program.low, self.program.high)
            )
            self.solver.addRows(
                new,
                low,
                high,
                matrix.nnz,
                matrix.indptr[:-1].astype(np.int32),
                matrix.indices.astype(np.int32),
                matrix.data,
            )
            self.passed = self.program.n_rows, len(self.program.rows), len(self.program.low)
        return self.program.run(self.solver, time_limit_s, whole=False)
