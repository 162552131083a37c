"""Simulated values of a problem: a placement's latency, single devices, a lower bound."""

from __future__ import annotations

import numpy as np

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import IntArray
from placement_gym.solvers.bounds import lower_bound
from placement_gym.solvers.solution import Solution


def evaluate_ms(backend: SimulatedBackend, assignment: IntArray) -> float:
    """The exact latency of a placement in ms, infinite if it is infeasible."""
    if backend.infeasibility(assignment):
        return np.inf
    return backend.remeasure([assignment])[0].latency_ms


def find_best_single_ms(backend: SimulatedBackend) -> float | None:
    """The latency of the fastest device that holds the whole model; None if none does."""
    problem = backend.problem
    alone = [evaluate_ms(backend, problem.single(int(d))) for d in np.flatnonzero(problem.runs_all)]
    return None if np.isinf(min(alone)) else min(alone)


def find_bound(backend: SimulatedBackend, time_limit_s: float, upper_ms: float) -> Solution:
    """A lower bound of all placements, with a placement where its solver makes one.

    Args:
        backend: The simulator.
        time_limit_s: Wall-clock limit of the solvers.
        upper_ms: A latency that some placement reaches.
    """
    problem, costs = backend.problem, backend.costs
    return lower_bound(problem, costs, backend.semantics, time_limit_s, upper_ms)
