"""Bounds and placements for overlapping schedules: the path-load program with interval load cuts.

A cut: between two tasks, what a device runs takes at least the sum of its times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray, now_s
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import (
    GAP,
    Optimum,
    Solution,
    Solver,
    Tasks,
    longest_path_or_load_ms,
    minimize,
    reaches,
    read_assignment,
)
from placement_gym.solvers.programs.path_program import PathProgram

MAX_TASKS = 1_000
"""Tasks up to which cuts are looked for. Hand-tuned: as that takes time of their square."""
MAX_ROUNDS = 8
"""Rounds of cuts. Hand-tuned."""
MIN_SOLVE_S = 0.1
"""Seconds of each solution, even if the time is up. Hand-tuned."""
CUTS_PER_ROUND = 300
CUTS_PER_TASK = 2
"""Most violated cuts of a round, and of a last task and device. Hand-tuned: as rows slow the
solver."""
TOLERANCE = 1e-6
"""Smallest violation of a cut, as a share of the objective: about the solver's."""
START = END = -1


def solve_path_load(
    problem: Problem, costs: CostTable, time_limit_s: float = 60.0, upper_ms: float = np.inf
) -> Solution:
    """Bound the latency of every list or event schedule from below, and place units.

    This holds for any transfer, contention and gaps, but not for calls. The program with interval
    load cuts is first solved with divided units; at the time limit its last value is the bound.
    Some placement reaches ``upper_ms``: only lower latencies are searched for, and the bound does
    not exceed it.
    """
    end = now_s() + time_limit_s
    built = PathProgram.build(problem, Tasks.from_operators(problem.units, costs), upper_ms)
    cuts = LoadCuts(built) if len(built.tasks) <= MAX_TASKS else None
    # With divided units first: fast, and often enough to show that nothing is below the limit.
    divided, result = tighten(Solver(built.program, whole=False), cuts, end)
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


class LoadCuts:
    """Separates the cuts of a program exactly.

    For an ancestor a of b, the tasks S that descend from a and are ancestors of b or b itself, and
    a device d: finish[b] >= finish[a] + time of S on d + time of b on other devices. The interval
    may also begin at the start of the schedule, or end at its end.

    Args:
        built: The program. Memory and time of a separation grow with the square and cube of tasks.
    """

    def __init__(self, built: PathProgram) -> None:
        self.built = built
        self.reach = reachable(built.tasks)
        self.before = (self.reach | np.eye(len(self.reach), dtype=bool)).astype(np.float32)
        self.after = self.reach.astype(np.float32)
        self.added: list[tuple[int, int, int, int]] = []

    def add_violated(self, values: FloatArray) -> int:
        """Add the worst cuts that a point of the program violates; returns their number.

        A cut that the program has already is violated by rounding only, and not added again.
        """
        *cuts, violation_ms = self.separate(values)
        worst = np.argsort(-violation_ms, kind="stable")[:CUTS_PER_ROUND]
        present = {cut[:3] for cut in self.added}
        new = [
            cut for cut in zip(*(part[worst] for part in cuts), strict=True) if cut not in present
        ]
        for first, last, device in new:
            self.add(first, last, device)
        return len(new)

    def separate(self, values: FloatArray) -> list[Any]:
        """Find for each last task and device the worst cuts at a point of the program.

        Returns (n_cuts,) task after which each interval begins or ``START``, task with which it
        ends or ``END``, device, and violation in ms, which is positive.
        """
        built, n = self.built, len(self.reach)
        finish, total = values[built.finish], float(values[built.total[0]])
        share = values[built.on] * built.tasks.ms
        cuts = []
        tolerance = TOLERANCE * max(total, 1e-3 * built.program.first_unit_ms)
        each = np.arange(n)
        for device in range(share.shape[1]):
            load = share[:, device].astype(np.float32)
            own = share.sum(axis=1) - share[:, device]
            # violations in ms of intervals between two tasks, from the start on, and to the end
            inside = (self.after * load) @ self.before
            between = finish[:, None] + inside + (own - finish)
            between[~self.reach] = -np.inf
            from_start = self.before.T @ load + own - finish
            to_end = finish + self.after @ load - total
            # the worst first tasks of each last one
            worst = np.argpartition(-between, min(CUTS_PER_TASK, n) - 1, axis=0)[:CUTS_PER_TASK]
            first = np.concatenate([worst.ravel(), np.full(n, START), each])
            last = np.concatenate([np.tile(each, len(worst)), each, np.full(n, END)])
            violation = np.concatenate([between[worst, each].ravel(), from_start, to_end])
            violated = violation > tolerance
            parts = first, last, np.full(len(first), device), violation
            cuts.append([part[violated] for part in parts])
        return [np.concatenate(parts) for parts in zip(*cuts, strict=True)]

    def inside(self, first: int, last: int) -> BoolArray:
        """(n_tasks,) the tasks between two, the last one included."""
        inside = np.ones(len(self.reach), dtype=bool)
        if first != START:
            inside &= self.reach[first]
        if last != END:
            inside &= self.before[:, last] > 0
        return inside

    def add(self, first: int, last: int, device: int) -> None:
        """Add one cut; ``added`` keeps its first and last task, its device and its row."""
        built, program = self.built, self.built.program
        self.added.append((int(first), int(last), int(device), program.n_rows))
        tasks, ms = np.flatnonzero(self.inside(first, last)), built.tasks.ms
        terms = [(built.on[tasks, device], ms[tasks, device])]
        end = built.total if last == END else built.finish[[last]]
        terms.append((end, -1.0))
        if first != START:
            terms.append((built.finish[[first]], 1.0))
        if last != END:
            others = np.flatnonzero(np.arange(ms.shape[1]) != device)
            terms.append((built.on[last, others], ms[last, others]))
        program.require(*terms, rows=1)


def tighten(solver: Solver, cuts: LoadCuts | None, end: float) -> tuple[Optimum | None, Optimum]:
    """Solve a program with divided units, and add cuts until none is violated or the time is up.

    Returns:
        The last optimum, None if none was found in time; and the last result.
    """
    best = None
    for _ in range(MAX_ROUNDS):
        result = solver.minimize(max(end - now_s(), MIN_SOLVE_S))
        if not result.proven or result.values is None:
            break
        best = result
        if cuts is None or now_s() > end or not cuts.add_violated(result.values):
            break
    return best, result


def reachable(tasks: Tasks) -> BoolArray:
    """(n_tasks, n_tasks) whether a path of readings leads from the first task to the second."""
    n = len(tasks)
    _, maker, reader = tasks.readings
    reach = np.zeros((n, n), dtype=bool)
    for r in np.argsort(-maker, kind="stable"):
        reach[maker[r]] |= reach[reader[r]]
        reach[maker[r], reader[r]] = True
    return reach
