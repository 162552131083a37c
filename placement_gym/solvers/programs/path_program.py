"""The path-load program: the latency of any schedule that overlaps, relaxed to paths and loads."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray
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
        """Build the program.

        Args:
            problem: Units, devices, support and memory limits.
            tasks: Operators in topological order, as schedules run them.
            upper_ms: Only placements of at most this latency are searched for.
            whole: Whether a unit must not be divided. Only then tasks have an earliest and a latest
                finish, as prices of rows are complete without.
        """
        upper_ms *= 1.0 + ROUNDING
        early, rest = earliest_on_devices_ms(problem, tasks), remaining_ms(problem, tasks)
        least_ms = max(float(early.min(axis=1).max()), mean_load_ms(problem, tasks))
        program = Linear(about_ms=least_ms)
        x, limited = add_placement(program, problem, whole=whole), problem.memory.limited
        limits = program.n_rows - len(limited), limited
        low = np.where(whole, early.min(axis=1), 0.0)
        high = np.maximum(upper_ms - rest, low)
        finish = program.variables(len(tasks), lower=low, upper=high, in_ms=True)
        most = max(upper_ms, low.max())
        total = program.variables(1, cost=1.0, lower=low.max(), upper=most, in_ms=True)
        built = cls(tasks, program, x, finish, total)
        built.rows["memory"].append(limits)
        built.forbid(early + rest[:, None] > upper_ms)
        built.require_loads()
        built.require_paths()
        return built

    @property
    def on(self) -> IntArray:
        """(n_tasks, n_devices) columns that place a task's unit."""
        return self.x[self.tasks.unit]

    def forbid(self, late: BoolArray) -> None:
        """Exclude devices on which a task, (n_tasks, n_devices), would end too late."""
        columns = np.unique(self.on[late])
        self.program.require((columns, 1.0), rows=len(columns))

    def note(self, what: str, about: IntArray) -> None:
        """Record what the rows that are added next constrain."""
        self.rows[what].append((self.program.n_rows, about))

    def require_loads(self) -> None:
        """Require the latency to be at least the time of all tasks on each device."""
        n_devices = self.x.shape[1]
        self.note("load", np.arange(n_devices))
        self.program.require(
            (self.on.T, self.tasks.ms.T), (np.repeat(self.total, n_devices), -1.0), rows=n_devices
        )

    def require_paths(self) -> None:
        """Require tasks to finish after those they read, and the latency to cover every finish."""
        _, maker, reader = self.tasks.readings
        n, on, ms = len(self.tasks), self.on, self.tasks.ms
        first = np.setdiff1d(np.arange(n), reader)
        self.note("first", first)
        self.program.require((on[first], ms[first]), (self.finish[first], -1.0), rows=len(first))
        last = np.setdiff1d(np.arange(n), maker)
        self.note("last", last)
        self.program.require(
            (self.finish[last], 1.0), (np.repeat(self.total, len(last)), -1.0), rows=len(last)
        )
        for rows, *terms in self.transfer_terms():
            after = (on[reader[rows]], ms[reader[rows]]), (self.finish[reader[rows]], -1.0)
            self.note("reading", rows)
            self.program.require((self.finish[maker[rows]], 1.0), *after, *terms, rows=len(rows))

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
        plan = self.add_plans(self.x[pairs[0]], self.x[pairs[1]])
        shape = len(moves), costs.shape[1] ** 2
        flat = costs[tensor[moves]].reshape(shape)
        return [*terms, [moves, (plan[pair].reshape(shape), flat)]]

    def add_plans(self, maker: IntArray, reader: IntArray) -> IntArray:
        """(n_pairs, n_devices, n_devices) columns, from (n_pairs, n_devices) ones of both units."""
        n_pairs, d = maker.shape
        plan = self.program.variables(n_pairs, d, d, upper=1.0)
        for part, columns in ((plan, maker), (plan.transpose(0, 2, 1), reader)):
            self.program.require((part, 1.0), (columns, -1.0), rows=n_pairs * d, low=0.0)
        return plan


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
