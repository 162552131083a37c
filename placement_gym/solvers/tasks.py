"""What solvers schedule or cut: tasks, the tensors between them, and their costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement_gym.costs.table import CostTable, FloatArray
from placement_gym.graph.operators import IntArray, Tensors
from placement_gym.graph.units import Units, acyclic


@dataclass(frozen=True, eq=False)
class Tasks:
    """Units, or operators where units depend on each other in a circle.

    Attributes:
        unit: (n_tasks,) the unit of each task.
        ms: (n_tasks, n_devices) times.
        tensors: What tasks read from each other; its sources and readers are tasks.
        transfer_ms: (n_tensors, n_devices, n_devices) of each of those tensors.
    """

    unit: IntArray
    ms: FloatArray
    tensors: Tensors
    transfer_ms: FloatArray

    @classmethod
    def of_units(cls, units: Units, costs: CostTable) -> Tasks:
        """One task a unit, whether or not their graph is acyclic."""
        graph, labels = units.graph, units.of_operator
        tensor, reader = graph.moved.readings()
        kept = np.unique(tensor[labels[graph.moved.source[tensor]] != labels[reader]])
        return cls(
            unit=np.arange(len(units)),
            ms=costs.unit_ms(units),
            tensors=units.quotient.tensors,
            transfer_ms=costs.transfer_ms[graph.moving[kept]],
        )

    @classmethod
    def ordered(cls, units: Units, costs: CostTable) -> Tasks:
        """Tasks in topological order: units if their graph is acyclic, else operators."""
        graph, labels = units.graph, units.of_operator
        if len(np.unique(acyclic(graph, labels))) == len(units):
            return cls.of_units(units, costs)
        return cls(labels, costs.operator_ms, graph.moved, costs.transfer_ms[graph.moving])

    def __len__(self) -> int:
        return len(self.unit)
