"""Bounds and placements for overlapping schedules, by the path-load program."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from placement_gym.base.arrays import BoolArray, FloatArray, IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.highs import GAP, minimize
from placement_gym.solvers.milp import read_assignment
from placement_gym.solvers.programs.cutting_planes import CuttingPlaneSolver
from placement_gym.solvers.programs.load_cuts import MAX_TASKS, LoadCuts
from placement_gym.solvers.programs.order_rows import add_order_rows
from placement_gym.solvers.programs.path_program import PathProgram
from placement_gym.solvers.programs.paths import longest_path_or_load_ms
from placement_gym.solvers.solution import Solution, reaches
from placement_gym.solvers.tasks import Tasks

MAX_ROUNDS = 6


def solve(
    problem: Problem,
    costs: CostTable,
    time_limit_s: float = 60.0,
    whole: bool = True,
    free: BoolArray | None = None,
    start: IntArray | None = None,
    upper_ms: float = np.inf,
    order: IntArray | None = None,
    max_nodes: int | None = None,
) -> Solution:
    """Bound the latency of every list or event schedule from below, and place units.

    This holds for any transfer, contention and gaps, but not for calls. The program with interval
    load cuts is first solved with divided units; at the time limit its last value is the bound.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        time_limit_s: Wall-clock limit.
        whole: Whether to go on with units that must not be divided.
        free: (n_units,) bool, which units may move; None for all. The bound then holds only for
            placements that move no other unit.
        start: (n_units,) a feasible assignment: the others stay there, and the search begins with
            it.
        upper_ms: A latency that some placement reaches: only lower ones are searched for, and the
            bound does not exceed it.
        order: (n_operators,) operators in the order in which a list schedule runs them: the bound
            then holds for this schedule only.
        max_nodes: Maximum number of nodes of the search tree, which unlike time is reproducible.

    Raises:
        ValueError: ``free`` is given without ``start``.
    """
    end = perf_counter() + time_limit_s
    if free is not None and start is None:
        raise ValueError("free needs a start: the assignment that the other units keep")
    tasks = Tasks.of_operators(problem.units, costs)
    built = PathProgram.build(problem, tasks, upper_ms)
    if free is not None and start is not None:
        built.fix(~free, start)
    if order is not None:
        add_order_rows(built, order, free, start)
    # With divided units first: fast, and often enough to show that nothing is below the limit.
    values, bound_ms = tighten(built, end)
    if not whole or values is None or bound_ms >= upper_ms * (1.0 - GAP):
        return Solution(None, min(bound_ms, upper_ms), proven=False)
    return place(problem, built, end, bound_ms, start, upper_ms, max_nodes)


def tighten(built: PathProgram, end: float) -> tuple[FloatArray | None, float]:
    """Solve the program with divided units and add cuts until none is violated, or the time is up.

    Returns:
        (n_columns,) the last point, None if there is none, and a bound in ms.
    """
    divided = CuttingPlaneSolver(built.program)
    found = divided.minimize(max(end - perf_counter(), 0.1))
    if found.values is None or not found.proven or len(built.tasks) > MAX_TASKS:
        return found.values, found.bound
    cuts = LoadCuts(built)
    for _ in range(MAX_ROUNDS):
        if perf_counter() > end or found.values is None or not cuts.add_violated(found.values):
            break
        better = divided.minimize(max(end - perf_counter(), 0.1))
        if not better.proven:
            return found.values if better.values is None else better.values, max(
                found.bound, better.bound
            )
        found = better
    return found.values, found.bound


def place(
    problem: Problem,
    built: PathProgram,
    end: float,
    bound_ms: float,
    start: IntArray | None,
    upper_ms: float,
    max_nodes: int | None,
) -> Solution:
    """Solve the program with whole units; while the optimum violates cuts, add them and go on."""
    cuts = LoadCuts(built) if len(built.tasks) <= MAX_TASKS else None
    while True:
        first = None if start is None else (built.x[np.arange(len(start)), start], 1.0)
        found = minimize(built.program, max(end - perf_counter(), 0.1), first, max_nodes=max_nodes)
        bound_ms = min(max(found.bound, bound_ms), upper_ms)
        if found.values is not None:
            start = read_assignment(found.values, built.x)
        limited = not found.proven or perf_counter() > end
        if limited or found.values is None or not cuts or not cuts.add_violated(found.values):
            break
    if start is None or problem.infeasibility(start):
        return Solution(None, bound_ms, proven=False)
    solved = found.proven and found.values is not None
    proven = solved and reaches(longest_path_or_load_ms(built.tasks, start), bound_ms)
    return Solution(start, bound_ms, proven)
