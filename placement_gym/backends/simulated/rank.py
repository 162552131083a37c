"""HEFT's upward rank: how long an operator's longest remaining path takes on average."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.backends.simulated.program import Program
from placement_gym.costs.table import FloatArray


def upward_rank(program: Program) -> FloatArray:
    """(n_operators,) ms: mean times over devices, mean transfers over pairs of two devices."""
    n_devices = program.ms.shape[1]
    pairs = max(n_devices * (n_devices - 1), 1)
    return longest_remaining(
        program, program.ms.mean(axis=1), program.transfer_ms.sum(axis=(1, 2)) / pairs
    )


@njit(cache=True, nogil=True)
def longest_remaining(program: Program, ms: FloatArray, transfer_ms: FloatArray) -> FloatArray:
    """(n_operators,) the longest path from each operator to an end, itself included."""
    rank = np.empty(len(ms))
    for i in range(len(ms) - 1, -1, -1):
        longest = 0.0
        for t in range(program.first_tensor[i], program.first_tensor[i + 1]):
            for r in range(program.first_reader[t], program.first_reader[t + 1]):
                longest = max(longest, transfer_ms[t] + rank[program.readers[r]])
        rank[i] = ms[i] + longest
    return rank
