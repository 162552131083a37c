"""The gap between the best known latency and what is provably possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from placement_gym.base.arrays import IntArray
from placement_gym.problem.costs.semantics import Semantics
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.bounds import lower_bound
from placement_gym.solvers.solution import reaches

TIME_LIMIT_S = 10.0


def optimum_or_bound(
    problem: Problem,
    costs: CostTable,
    semantics: Semantics,
    known_ms: Sequence[float],
    evaluate: Callable[[IntArray], float],
    time_limit_s: float = TIME_LIMIT_S,
) -> tuple[float | None, float]:
    """Compute a lower bound, and the optimum if some placement is proven to reach the bound.

    The optimum is a known latency, or that of the solver's own placement, that exceeds the bound
    by no more than rounding.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        semantics: What the latency means.
        known_ms: Latencies of feasible placements.
        evaluate: Returns the latency in ms of an (n_units,) assignment, infinite if it is
            infeasible.
        time_limit_s: Time limit of the solver.

    Returns:
        The optimum in ms, None if it is not proven; and the bound in ms.
    """
    best_ms = min(known_ms, default=inf)
    solved = lower_bound(problem, costs, semantics, time_limit_s, best_ms)
    if solved.assignment is not None:
        best_ms = min(best_ms, evaluate(solved.assignment))
    bound_ms = min(solved.bound_ms, best_ms)
    return best_ms if reaches(best_ms, bound_ms) else None, bound_ms
