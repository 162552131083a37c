"""Greedy filling, for the latency of accelerators that are called like functions.

The objective of Tarnawski et al. (2020, section 6), schedule ``"calls"``.
"""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem


def greedy_fill(problem: Problem, costs: CostTable, order: IntArray | None = None) -> IntArray:
    """Fill one accelerator after another in topological order.

    A unit that the current accelerator does not support or has no room for goes to a host, or
    else to any accelerator that can hold it, or else to where the most room is left.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Which devices are hosts.
        order: (n_units,) units in the order in which they are placed; None takes their own.

    Returns:
        (n_units,) device of each unit.
    """
    room, shared = problem.limits_bytes.copy(), problem.memory.shared
    hosts, accelerators = np.flatnonzero(costs.host), np.flatnonzero(~costs.host)
    device = np.zeros(problem.n_units, dtype=np.int64)
    at = 0
    for unit in range(problem.n_units) if order is None else order:
        unit_bytes = problem.unit_bytes[unit]
        while at < len(accelerators) - 1 and unit_bytes > room[accelerators[at]]:
            at += 1
        choices = np.concatenate([accelerators[at : at + 1], hosts, accelerators])
        fits = problem.supported[unit, choices] & (unit_bytes <= room[choices])
        if fits.any():
            device[unit] = choices[fits.argmax()]
        else:
            device[unit] = np.where(problem.supported[unit], room, -np.inf).argmax()
        room[shared[device[unit]]] -= unit_bytes
    return device
