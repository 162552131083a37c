"""Tasks that solvers place, the tensors between them, and the longest paths through them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.graph import Tensors, Units, merge_cycles
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.schedules import upward_rank


@dataclass(frozen=True, eq=False)
class Tasks:
    """Units, or operators where units depend on each other in a cycle."""

    unit: IntArray  # (n_tasks,) the unit of each task
    ms: FloatArray  # (n_tasks, n_devices) times
    tensors: Tensors  # what tasks read from each other; its sources and readers are tasks
    tensor: IntArray  # (n_tensors,) index of each tensor in the operator graph and its cost table
    transfer_ms: FloatArray  # (n_tensors, n_devices, n_devices) time to move each tensor

    @classmethod
    def from_units(cls, units: Units, costs: CostTable) -> Tasks:
        """One task per unit, whether or not the graph of units is acyclic."""
        graph, labels = units.graph, units.of_operator
        tensor, reader = graph.movable_tensors.readings()
        crossing = np.unique(tensor[labels[graph.movable_tensors.source[tensor]] != labels[reader]])
        tensor = graph.movable[crossing]
        return cls(
            unit=np.arange(len(units)),
            ms=costs.unit_ms(units),
            tensors=units.quotient.tensors,
            tensor=tensor,
            transfer_ms=costs.transfer_ms[tensor],
        )

    @classmethod
    def from_operators(cls, units: Units, costs: CostTable) -> Tasks:
        """One task per operator, as schedules run them."""
        graph = units.graph
        moved_ms = costs.transfer_ms[graph.movable]
        return cls(
            units.of_operator, costs.operator_ms, graph.movable_tensors, graph.movable, moved_ms
        )

    @classmethod
    def in_topological_order(cls, units: Units, costs: CostTable) -> Tasks:
        """Tasks in topological order: units if their graph is acyclic, else operators.

        Units are an approximation: a schedule may start the first operators of a unit before the
        inputs of its last ones have arrived.
        """
        if len(np.unique(merge_cycles(units.graph, units.of_operator))) == len(units):
            return cls.from_units(units, costs)
        return cls.from_operators(units, costs)

    @cached_property
    def readings(self) -> tuple[IntArray, IntArray, IntArray]:
        """(n_readings,) tensor, maker and reader of each reading."""
        tensor, reader = self.tensors.readings()
        return tensor, self.tensors.source[tensor], reader

    def serial_ms(self, device: IntArray) -> float:
        """Sum of times and transfers under (n_tasks,) devices, once per tensor and destination."""
        tensor, maker, reader = self.readings
        here, there = device[maker], device[reader]
        moves = np.unique(np.stack([tensor, here, there])[:, here != there], axis=1)
        work = self.ms[np.arange(len(self)), device].sum()
        return float(work + self.transfer_ms[tuple(moves)].sum())

    def upward_rank(self) -> FloatArray:
        """(n_tasks,) see ``schedules.program.upward_rank``."""
        return upward_rank(self.ms, self.transfer_ms, self.tensors)

    def rank_order(self) -> IntArray:
        """(n_tasks,) tasks by decreasing upward rank, which is a topological order."""
        return np.argsort(-self.upward_rank(), kind="stable")

    def __len__(self) -> int:
        return len(self.unit)


def fastest_ms(problem: Problem, tasks: Tasks) -> FloatArray:
    """(n_tasks,) minimum time of each task; infinite if no device can run it."""
    least: FloatArray = np.where(problem.possible[tasks.unit], tasks.ms, np.inf).min(axis=1)
    return least


def mean_load_ms(problem: Problem, tasks: Tasks) -> float:
    """The mean load of devices, or the longest task if that is longer, at minimum times."""
    fastest = fastest_ms(problem, tasks)
    return float(max(fastest.sum() / len(problem.limits_bytes), fastest.max()))


def earliest_on_devices_ms(problem: Problem, tasks: Tasks) -> FloatArray:
    """(n_tasks, n_devices) earliest possible finish of each task on each device, in ms.

    finish[v, d] = ms[v, d] + max over inputs u of min over d' of finish[u, d'] + transfer; infinite
    if the device cannot run the task.
    """
    finish = np.where(problem.possible[tasks.unit], tasks.ms, np.inf)
    ready = np.zeros_like(finish)
    tensor, maker, reader = tasks.readings
    for r in np.argsort(maker, kind="stable"):
        done = ready[maker[r]] + finish[maker[r]]
        arrival = (done[:, None] + tasks.transfer_ms[tensor[r]]).min(axis=0)
        ready[reader[r]] = np.maximum(ready[reader[r]], arrival)
    earliest: FloatArray = ready + finish
    return earliest


def remaining_ms(problem: Problem, tasks: Tasks) -> FloatArray:
    """(n_tasks,) minimum time in ms that any placement needs after each task has finished."""
    return longest_after_ms(fastest_ms(problem, tasks), *tasks.readings[1:])


def longest_after_ms(ms: FloatArray, maker: IntArray, reader: IntArray) -> FloatArray:
    """(n_tasks,) longest path of (n_tasks,) times after each task, by (n_readings,) readings."""
    times, rest = ms.tolist(), [0.0] * len(ms)
    order = np.argsort(-reader, kind="stable")
    for i, j in zip(maker[order].tolist(), reader[order].tolist(), strict=True):
        rest[i] = max(rest[i], times[j] + rest[j])
    return np.array(rest)


def longest_path_or_load_ms(tasks: Tasks, assignment: IntArray) -> float:
    """The least latency of an (n_units,) assignment in any overlapping schedule.

    This is the longest path with transfers, or the largest sum of times on one device.
    """
    on = assignment[tasks.unit]
    ms = tasks.ms[np.arange(len(tasks)), on]
    finish = ms.copy()
    tensor, maker, reader = tasks.readings
    transfer_ms = tasks.transfer_ms[tensor, on[maker], on[reader]]
    for r in np.argsort(maker, kind="stable"):
        late = finish[maker[r]] + transfer_ms[r] + ms[reader[r]]
        finish[reader[r]] = max(finish[reader[r]], late)
    return float(max(finish.max(), np.bincount(on, ms).max()))
