"""Tasks that solvers place, the tensors between them, and their costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.graph.operators import Tensors
from placement_gym.graph.units import Units, merge_cycles
from placement_gym.problem.costs.rank import upward_rank
from placement_gym.problem.costs.table import CostTable


@dataclass(frozen=True, eq=False)
class Tasks:
    """Units, or operators where units depend on each other in a cycle.

    Attributes:
        unit: (n_tasks,) the unit of each task.
        ms: (n_tasks, n_devices) times.
        tensors: What tasks read from each other; its sources and readers are tasks.
        tensor: (n_tensors,) index of each tensor in the operator graph and its cost table.
        transfer_ms: (n_tensors, n_devices, n_devices) time to move each tensor.
    """

    unit: IntArray
    ms: FloatArray
    tensors: Tensors
    tensor: IntArray
    transfer_ms: FloatArray

    @classmethod
    def of_units(cls, units: Units, costs: CostTable) -> Tasks:
        """One task per unit, whether or not the graph of units is acyclic."""
        graph, labels = units.graph, units.of_operator
        tensor, reader = graph.moved.readings()
        kept = np.unique(tensor[labels[graph.moved.source[tensor]] != labels[reader]])
        tensor = graph.moving[kept]
        return cls(
            unit=np.arange(len(units)),
            ms=costs.unit_ms(units),
            tensors=units.quotient.tensors,
            tensor=tensor,
            transfer_ms=costs.transfer_ms[tensor],
        )

    @classmethod
    def of_operators(cls, units: Units, costs: CostTable) -> Tasks:
        """One task per operator, as schedules run them."""
        graph = units.graph
        moved_ms = costs.transfer_ms[graph.moving]
        return cls(units.of_operator, costs.operator_ms, graph.moved, graph.moving, moved_ms)

    @classmethod
    def in_topological_order(cls, units: Units, costs: CostTable) -> Tasks:
        """Tasks in topological order: units if their graph is acyclic, else operators.

        Tasks of units are an approximation: a schedule may start a unit's first operators before
        the inputs of its last ones have arrived.
        """
        if len(np.unique(merge_cycles(units.graph, units.of_operator))) == len(units):
            return cls.of_units(units, costs)
        return cls.of_operators(units, costs)

    def serial_ms(self, device: IntArray) -> float:
        """Sum of times and transfers under (n_tasks,) devices, once per tensor and destination."""
        tensor, reader = self.tensors.readings()
        here, there = device[self.tensors.source[tensor]], device[reader]
        moves = np.unique(np.stack([tensor, here, there])[:, here != there], axis=1)
        work = self.ms[np.arange(len(self)), device].sum()
        return float(work + self.transfer_ms[tuple(moves)].sum())

    def upward_rank(self) -> FloatArray:
        """(n_tasks,) see ``problem.costs.rank``."""
        return upward_rank(self.ms, self.transfer_ms, self.tensors)

    def rank_order(self) -> IntArray:
        """(n_tasks,) tasks by decreasing upward rank, which is a topological order."""
        return np.argsort(-self.upward_rank(), kind="stable")

    def __len__(self) -> int:
        return len(self.unit)
