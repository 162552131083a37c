"""The path-load program: the latency of any schedule that overlaps, relaxed to paths and loads."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.problem import Problem
from placement_gym.solvers import (
    ROUNDING,
    Linear,
    Tasks,
    add_placement,
    earliest_on_devices_ms,
    mean_load_ms,
    remaining_ms,
)


@dataclass(frozen=True, eq=False)
class PathProgram:
    """A linear program whose optimum is a lower bound of every event and list schedule.

    A task finishes after each task it reads, plus the transfer and its own time; the latency is at
    least every finish and every device's load. This is valid for any transfer, contention, order
    and gaps, since those only cause delays, but not for calls, which merge transfers.
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
        have no earliest and latest finish, as prices of rows are complete without.
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
        """Add a row for each of what it constrains, at most 0, and record it."""
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

        The exact lower hull of that time for each reading: on two devices the two linear functions
        themselves; where a transfer takes one time to leave a device and one to enter the other,
        the differences at either end; otherwise a transport plan between their devices.
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
