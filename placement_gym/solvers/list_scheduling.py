"""List scheduling: tasks are placed one after another, each on its best device.

All functions respect support and memory limits; if no device has room, the one with the most room
takes the task. Their times are optimistic, as transfers do not wait for each other: evaluate the
placements they return.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers.tasks import Tasks


class PartialSchedule:
    """The devices and times of the tasks placed so far."""

    def __init__(self, problem: Problem, tasks: Tasks) -> None:
        self.problem, self.tasks = problem, tasks
        self.device = np.full(problem.n_units, -1, dtype=np.int64)
        self.room = problem.limits_bytes.copy()  # the same of all devices that share memory
        self.finish = np.zeros(len(tasks))
        self.busy: list[list[tuple[float, float]]] = [[] for _ in problem.devices]
        self.blocks: list[list[tuple[float, float]]] = [[] for _ in problem.devices]
        tensor, _, reader = tasks.readings
        order = np.argsort(reader, kind="stable")
        self.read = tensor[order]
        self.first_read = np.searchsorted(reader[order], np.arange(len(tasks) + 1))

    def choices(self, task: int) -> IntArray:
        """Devices that may take the task: its unit's, or those that support it and have room."""
        unit = self.tasks.unit[task]
        if self.device[unit] >= 0:
            return self.device[unit : unit + 1]
        supported = self.problem.supported[unit]
        fits = supported & (self.problem.unit_bytes[unit] <= self.room)
        if not fits.any():
            fits = supported & (self.room == self.room[supported].max())
        return np.flatnonzero(fits)

    def ready_ms(self, task: int) -> FloatArray:
        """(n_devices,) times at which the task's inputs are on each device."""
        tensors = self.read[self.first_read[task] : self.first_read[task + 1]]
        makers = self.tasks.tensors.source[tensors]
        there = self.device[self.tasks.unit[makers]]
        arrivals = self.finish[makers, None] + self.tasks.transfer_ms[tensors, there]
        result: FloatArray = arrivals.max(axis=0, initial=0.0)
        return result

    def start_ms(self, device: int, ready_ms: float, duration_ms: float) -> float:
        """The earliest start on a device, possibly in a gap.

        Work without gaps is skipped as one block, unless the task takes no time and fits between
        any two.
        """
        slots = self.blocks[device] if duration_ms > 0.0 else self.busy[device]
        at = bisect_left(slots, (ready_ms, ready_ms))
        start = ready_ms if at == 0 else max(ready_ms, slots[at - 1][1])
        while at < len(slots) and start + duration_ms > slots[at][0]:
            start = max(start, slots[at][1])
            at += 1
        return start

    def start_last_ms(self, device: int, ready_ms: float, duration_ms: float = 0.0) -> float:
        """The earliest start on a device after all tasks placed on it."""
        return max(ready_ms, self.busy[device][-1][1] if self.busy[device] else 0.0)

    def place(self, task: int, device: int, start_ms: float) -> None:
        """Place a task, and its whole unit, on a device."""
        unit = self.tasks.unit[task]
        if self.device[unit] < 0:
            self.device[unit] = device
            self.room[self.problem.memory.shared[device]] -= self.problem.unit_bytes[unit]
        self.finish[task] = start_ms + self.tasks.ms[task, device]
        if self.tasks.ms[task, device] > 0.0:
            finish_ms = float(self.finish[task])
            insort(self.busy[device], (start_ms, finish_ms))
            merge(self.blocks[device], start_ms, finish_ms)


def merge(blocks: list[tuple[float, float]], start: float, finish: float) -> None:
    """Insert an interval into sorted ones and join those that touch; none may overlap."""
    at = bisect_left(blocks, (start, finish))
    if at < len(blocks) and blocks[at][0] == finish:
        finish = blocks.pop(at)[1]
    if at and blocks[at - 1][1] == start:
        at -= 1
        start = blocks.pop(at)[0]
    blocks.insert(at, (start, finish))


def heft(problem: Problem, costs: CostTable) -> IntArray:
    """Place tasks by HEFT (Topcuoglu et al. 2002); returns (n_units,) devices.

    Highest upward rank first, each task where it finishes first, gaps included.
    """
    return place_by_rank(problem, costs, PartialSchedule.start_ms)


def critical_path(problem: Problem, costs: CostTable) -> IntArray:
    """Place tasks by list scheduling; returns (n_units,) devices.

    As ``heft``, but a device runs tasks in the order of their ranks and leaves gaps unfilled.
    """
    return place_by_rank(problem, costs, PartialSchedule.start_last_ms)


def place_by_rank(
    problem: Problem,
    costs: CostTable,
    start_ms: Callable[[PartialSchedule, int, float, float], float],
) -> IntArray:
    """(n_units,) devices of tasks by rank; ``start_ms`` of a device, ready time and duration."""
    partial = PartialSchedule(problem, Tasks.in_topological_order(problem.units, costs))
    ms = partial.tasks.ms
    for task in partial.tasks.rank_order().tolist():
        ready = partial.ready_ms(task)
        starts = {
            d: start_ms(partial, d, ready[d], ms[task, d]) for d in partial.choices(task).tolist()
        }
        device = min(starts, key=lambda d: starts[d] + ms[task, d])
        partial.place(task, device, starts[device])
    return partial.device


def m_etf(problem: Problem, costs: CostTable) -> IntArray:
    """Place tasks by m-ETF (Baechi, section 3); returns (n_units,) devices.

    The ready task that can start first on any device is next, of equal ones that of the highest
    upward rank.
    """
    partial = PartialSchedule(problem, Tasks.in_topological_order(problem.units, costs))
    tasks = partial.tasks
    rank = tasks.upward_rank()
    _, maker, reader = tasks.readings
    missing = np.bincount(reader, minlength=len(tasks))
    followers = reader[np.argsort(maker, kind="stable")]
    first = np.searchsorted(np.sort(maker), np.arange(len(tasks) + 1))
    ready = {task: partial.ready_ms(task) for task in np.flatnonzero(missing == 0).tolist()}
    while ready:
        options = [
            (partial.start_last_ms(d, inputs[d]), -rank[task], task, d)
            for task, inputs in ready.items()
            for d in partial.choices(task).tolist()
        ]
        start, _, task, device = min(options)
        partial.place(task, device, start)
        del ready[task]
        for follower in followers[first[task] : first[task + 1]].tolist():
            missing[follower] -= 1
            if missing[follower] == 0:
                ready[follower] = partial.ready_ms(follower)
    return partial.device
