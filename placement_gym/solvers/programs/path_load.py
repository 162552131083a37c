"""Bounds and placements for overlapping schedules, by the path-load program."""

from __future__ import annotations

import numpy as np

from placement_gym.base import IntArray, now_s
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import (
    GAP,
    CuttingPlaneSolver,
    Solution,
    Tasks,
    longest_path_or_load_ms,
    minimize,
    reaches,
    read_assignment,
)
from placement_gym.solvers.programs.load_cuts import MAX_TASKS, LoadCuts, tighten
from placement_gym.solvers.programs.path_program import PathProgram


def solve(
    problem: Problem, costs: CostTable, time_limit_s: float = 60.0, upper_ms: float = np.inf
) -> Solution:
    """Bound the latency of every list or event schedule from below, and place units.

    This holds for any transfer, contention and gaps, but not for calls. The program with interval
    load cuts is first solved with divided units; at the time limit its last value is the bound.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        time_limit_s: Wall-clock limit.
        upper_ms: A latency that some placement reaches: only lower ones are searched for, and the
            bound does not exceed it.
    """
    end = now_s() + time_limit_s
    built = PathProgram.build(problem, Tasks.from_operators(problem.units, costs), upper_ms)
    cuts = LoadCuts(built) if len(built.tasks) <= MAX_TASKS else None
    # With divided units first: fast, and often enough to show that nothing is below the limit.
    divided, result = tighten(CuttingPlaneSolver(built.program), cuts, end)
    bound_ms = max(result.bound, 0.0 if divided is None else divided.bound)
    if (divided or result).values is None or bound_ms >= upper_ms * (1.0 - GAP):
        return Solution(None, min(bound_ms, upper_ms), proven=False)
    # Then with whole units; while the optimum violates cuts, they are added.
    best: IntArray | None = None
    while True:
        start = None if best is None else (built.x[np.arange(len(best)), best], 1.0)
        result = minimize(built.program, max(end - now_s(), 0.1), start)
        bound_ms = min(max(result.bound, bound_ms), upper_ms)
        if result.values is not None:
            best = read_assignment(result.values, built.x)
        limited = not result.proven or now_s() > end
        if limited or result.values is None or not cuts or not cuts.add_violated(result.values):
            break
    if best is None or problem.infeasibility(best):
        return Solution(None, bound_ms, proven=False)
    solved = result.proven and result.values is not None
    proven = solved and reaches(longest_path_or_load_ms(built.tasks, best), bound_ms)
    return Solution(best, bound_ms, proven)
