"""A graph and its costs as flat arrays, which the kernels read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray, UInt32
from placement_gym.graph.units import Units
from placement_gym.problem.costs.table import CostTable


class Program(NamedTuple):
    """Operators in topological order; the tensors of one operator are adjacent.

    Only tensors that placements can move are included; Constants, Parameters and Results follow
    their neighbour and wait for nothing. Indices are unsigned, which avoids numba's check for
    negative ones.

    Attributes:
        unit: (n_operators,) uint32, the unit of each operator.
        ms: (n_operators, n_devices) float64.
        first_tensor: (n_operators + 1,) uint32, where each operator's tensors begin.
        source: (n_tensors,) uint32, the operator that makes the tensor.
        first_reader: (n_tensors + 1,) uint32, where each tensor's readers begin.
        readers: (n_readings,) uint32.
        transfer_ms: (n_tensors, n_devices, n_devices) float64, zero on the diagonal.
        boundary_ms: (n_tensors, n_devices) float64, ``CostTable.boundary_ms``.
        inputs: (n_operators,) uint32, number of tensors that each operator reads.
    """

    unit: UInt32
    ms: FloatArray
    first_tensor: UInt32
    source: UInt32
    first_reader: UInt32
    readers: UInt32
    transfer_ms: FloatArray
    boundary_ms: FloatArray
    inputs: UInt32

    @classmethod
    def of(cls, units: Units, costs: CostTable) -> Program:
        """Make the program of a graph's operators under their costs."""
        graph = units.graph
        tensors, n = graph.moved, len(graph)
        order = np.argsort(tensors.source, kind="stable")
        counts = np.diff(tensors.offsets)[order]
        starts = tensors.offsets[:-1][order]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        readers = tensors.readers[np.repeat(starts, counts) + within]
        return cls(
            unit=uint32(units.of_operator),
            ms=np.ascontiguousarray(costs.operator_ms),
            first_tensor=offsets(np.bincount(tensors.source, minlength=n)),
            source=uint32(tensors.source[order]),
            first_reader=offsets(counts),
            readers=uint32(readers),
            transfer_ms=np.ascontiguousarray(costs.transfer_ms[graph.moving[order]]),
            boundary_ms=np.ascontiguousarray(costs.boundary_ms[graph.moving[order]]),
            inputs=uint32(np.bincount(readers, minlength=n)),
        )


class Readings(NamedTuple):
    """The tensors that each operator reads, the transpose of ``Program.readers``.

    Attributes:
        first: (n_operators + 1,) uint32, where each operator's readings begin.
        tensor: (n_readings,) uint32.
        producer: (n_readings,) uint32, the operator that makes the tensor.
    """

    first: UInt32
    tensor: UInt32
    producer: UInt32

    @classmethod
    def of(cls, program: Program) -> Readings:
        made = np.repeat(np.arange(len(program.source)), np.diff(program.first_reader))
        tensor = uint32(made[np.argsort(program.readers, kind="stable")])
        return cls(offsets(program.inputs), tensor, program.source[tensor])


def uint32(values: IntArray | UInt32) -> UInt32:
    return np.ascontiguousarray(values, dtype=np.uint32)


def offsets(counts: IntArray | UInt32) -> UInt32:
    return uint32(np.concatenate([[0], np.cumsum(counts)]))
