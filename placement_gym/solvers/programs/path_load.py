"""Bounds and placements of overlapping schedules: the path-load program and its load cuts.

The latency of any overlapping schedule is relaxed to paths and loads. A cut: between two tasks, a
device takes at least the sum of the times of its tasks.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray, now_s
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import (
    GAP,
    ROUNDING,
    Linear,
    Optimum,
    Solution,
    Solver,
    Tasks,
    add_placement,
    earliest_on_devices_ms,
    longest_path_or_load_ms,
    mean_load_ms,
    minimize,
    reaches,
    remaining_ms,
)

MAX_TASKS = 1_000
"""Maximum number of tasks with cuts. Hand-tuned: separation takes time of their square."""
MAX_ROUNDS = 8
"""Maximum rounds of cuts. Hand-tuned."""
MIN_SOLVE_S = 0.1
"""Minimum seconds of each solution, even if the time is up. Hand-tuned."""
CUTS_PER_ROUND = 300
CUTS_PER_TASK = 2
"""Most violated cuts of a round, and of a last task and device. Hand-tuned: rows slow the
solver."""
TOLERANCE = 1e-6
"""Smallest violation of a cut, as a share of the objective: about the solver's."""
START = END = -1


def solve_path_load(
    problem: Problem, costs: CostTable, time_limit_s: float = 60.0, upper_ms: float = np.inf
) -> Solution:
    """Bound the latency of every list or event schedule from below, and place units.

    Valid for any transfer, contention and gaps, but not for calls. The program with interval load
    cuts is first solved with divided units; its bound remains if the time limit ends the rest. Some
    placement reaches ``upper_ms``: only lower latencies are searched for, and the bound does not
    exceed it.
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
            best = result.values[built.x].argmax(axis=1)
        limited = not result.proven or now_s() > end
        if limited or result.values is None or not cuts or not cuts.add_violated(result.values):
            break
    if best is None or problem.infeasibility(best):
        return Solution(None, bound_ms, proven=False)
    solved = result.proven and result.values is not None
    proven = solved and reaches(longest_path_or_load_ms(built.tasks, best), bound_ms)
    return Solution(best, bound_ms, proven)


@dataclass(frozen=True, eq=False)
class PathProgram:
    """A linear program whose optimum is a lower bound of every event and list schedule.

    A task finishes after each task it reads, plus the transfer and its own time; the latency is at
    least every finish and every device's load. Contention, order and gaps only delay tasks, so the
    bound holds for any of them, but not for calls, which merge transfers.
    """

    tasks: Tasks  # the tasks, in topological order
    program: Linear  # variables and rows
    x: IntArray  # (n_units, n_devices) columns that place a unit
    finish: IntArray  # (n_tasks,) columns of the finish of each task, ms
    total: IntArray  # (1,) column of the latency, ms
    # blocks of rows by what they constrain: ``"memory"`` groups of devices, ``"load"`` devices,
    # ``"first"`` tasks without inputs, ``"last"`` tasks that nothing reads, ``"reading"`` readings;
    # each with its first row and the indices of what its rows constrain
    rows: dict[str, list[tuple[int, IntArray]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def build(
        cls, problem: Problem, tasks: Tasks, upper_ms: float = np.inf, whole: bool = True
    ) -> PathProgram:
        """Build the program of tasks in topological order, as schedules run them.

        Only placements of at most ``upper_ms`` are searched for. If units may be divided, tasks
        have no earliest and latest finish, so that prices of rows are complete.
        """
        upper_ms *= 1.0 + ROUNDING
        early, rest = earliest_on_devices_ms(problem, tasks), remaining_ms(problem, tasks)
        least_ms = max(float(early.min(axis=1).max()), mean_load_ms(problem, tasks))
        program = Linear(about_ms=least_ms)
        x, limited = add_placement(program, problem, whole=whole), problem.memory.limited
        low = np.where(whole, early.min(axis=1), 0.0)
        high = np.maximum(upper_ms - rest, low)
        finish = program.variables(len(tasks), lower=low, upper=high, in_ms=True)
        most = max(upper_ms, low.max())
        total = program.variables(1, cost=1.0, lower=low.max(), upper=most, in_ms=True)
        built = cls(tasks, program, x, finish, total)
        built.rows["memory"].append((program.n_rows - len(limited), limited))
        # devices on which a task would end too late are excluded
        late = np.unique(built.on[early + rest[:, None] > upper_ms])
        program.require((late, 1.0), rows=len(late))
        # the latency is at least the time of all tasks on each device
        devices = np.arange(x.shape[1])
        every = np.repeat(total, len(devices))
        built.require("load", devices, (built.on.T, tasks.ms.T), (every, -1.0))
        built.require_paths()
        return built

    @property
    def on(self) -> IntArray:
        """(n_tasks, n_devices) columns that place a task's unit."""
        return self.x[self.tasks.unit]

    def require(self, what: str, about: IntArray, *terms: Any) -> None:
        """Add and record a row, at most 0, for each of the things it constrains."""
        self.rows[what].append((self.program.n_rows, about))
        self.program.require(*terms, rows=len(about))

    def require_paths(self) -> None:
        """Require tasks to finish after those they read, and the latency to cover every finish."""
        _, maker, reader = self.tasks.readings
        every, on, ms, finish = np.arange(len(self.tasks)), self.on, self.tasks.ms, self.finish
        first, last = np.setdiff1d(every, reader), np.setdiff1d(every, maker)
        self.require("first", first, (on[first], ms[first]), (finish[first], -1.0))
        total = np.repeat(self.total, len(last))
        self.require("last", last, (finish[last], 1.0), (total, -1.0))
        for rows, *terms in self.transfer_terms():
            here, there = maker[rows], reader[rows]
            after = (on[there], ms[there]), (finish[there], -1.0)
            self.require("reading", rows, (finish[here], 1.0), *after, *terms)

    def transfer_terms(self) -> list[Any]:
        """Readings, and terms that add up to no more than the time of their transfers.

        The exact lower hull of that time: on two devices the two linear functions; if a transfer
        takes one time to leave a device and one to enter the other, the differences at either end;
        otherwise a transport plan between devices.
        """
        tensor, maker, reader = self.tasks.readings
        unit, costs = self.tasks.unit, self.tasks.transfer_ms
        ends = np.stack([unit[maker], unit[reader]])
        moves = np.flatnonzero((ends[0] != ends[1]) & costs[tensor].any(axis=(1, 2)))
        stays = np.setdiff1d(np.arange(len(tensor)), moves)
        terms: list[Any] = [[stays]]
        source, target = self.x[ends[0]], self.x[ends[1]]
        if costs.shape[1] == 2:
            # a transfer takes place if the reader is there and the maker is not
            for here, there in ((0, 1), (1, 0)):
                cost = costs[tensor[moves], here, there][:, None]
                pair = np.stack([target[moves, there], source[moves, there]], axis=1)
                terms.append([moves, (pair, cost * [1.0, -1.0])])
            return terms
        pairs, pair = np.unique(ends[:, moves], axis=1, return_inverse=True)
        pair = pair.ravel()
        each = side_costs(costs)
        if each is not None:
            # each end pays if the two units differ in whether they are on its device
            busy = np.flatnonzero(each.any(axis=0))
            apart = self.program.variables(len(pairs[0]), len(busy))
            source, target = (self.x[unit][:, busy] for unit in pairs)
            self.program.require_differences(source, target, apart)
            return [*terms, [moves, (apart[pair], each[tensor[moves]][:, busy])]]
        # how much of each pair of units is on which pair of devices
        d = costs.shape[1]
        plan = self.program.variables(len(pairs[0]), d, d, upper=1.0)
        for part, unit in ((plan, pairs[0]), (plan.transpose(0, 2, 1), pairs[1])):
            self.program.require((part, 1.0), (self.x[unit], -1.0), rows=part.size // d, low=0.0)
        shape = len(moves), d**2
        flat = costs[tensor[moves]].reshape(shape)
        return [*terms, [moves, (plan[pair].reshape(shape), flat)]]


def side_costs(transfer_ms: FloatArray) -> FloatArray | None:
    """(n_tensors, n_devices) costs c such that each transfer from a to b takes c[a] + c[b].

    None if transfers on at least three devices have another form, or a cost would be negative.
    """
    d = transfer_ms.shape[1]
    cost = np.zeros(transfer_ms.shape[:2])
    for a in range(d):
        b, c = (a + 1) % d, (a + 2) % d
        cost[:, a] = (transfer_ms[:, a, b] + transfer_ms[:, a, c] - transfer_ms[:, b, c]) / 2
    sums = (cost[:, :, None] + cost[:, None, :]) * ~np.eye(d, dtype=bool)
    scale = transfer_ms.max(initial=0.0) * ROUNDING
    if (cost < -scale).any() or not np.allclose(sums, transfer_ms, rtol=ROUNDING, atol=scale):
        return None
    return np.maximum(cost, 0.0)


class LoadCuts:
    """Separates the cuts of a program exactly.

    For an ancestor a of b, the tasks S that descend from a and are b or its ancestors, and a device
    d: finish[b] >= finish[a] + time of S on d + time of b on other devices. The interval may also
    begin with the schedule, or end with it. Memory and time of a separation grow with the square
    and cube of the number of tasks.
    """

    def __init__(self, built: PathProgram) -> None:
        self.built = built
        self.reach = reachable(built.tasks)
        self.before = (self.reach | np.eye(len(self.reach), dtype=bool)).astype(np.float32)
        self.after = self.reach.astype(np.float32)
        self.added: list[tuple[int, int, int, int]] = []

    def add_violated(self, values: FloatArray) -> int:
        """Add the worst cuts that a point of the program violates; return their number.

        A cut that the program already has is violated only by rounding, and not added again.
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

        Returns (n_cuts,) arrays: the task after which each interval begins or ``START``, the task
        with which it ends or ``END``, the device, and the violation in ms, which is positive.
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
        """Add one cut; ``added`` records its first and last task, its device and its row."""
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

    Returns the last optimum, None if none was found in time; and the last result.
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
