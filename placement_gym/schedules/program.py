"""A graph, its costs, channels and ranks as flat arrays for the kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, Int32, IntArray, UInt32
from placement_gym.graph import OpGraph, Tensors, Units, label_components
from placement_gym.problem.costs import CostTable

DEST, EDGE, OUTPUT = 0, 1, 2
"""How often a tensor moves; see ``Semantics.transfer``."""
NOTHING = -1


class Program(NamedTuple):
    """Operators in topological order; the tensors of one operator are adjacent.

    Only tensors that placements can move are included: Constants, Parameters and Results follow
    their neighbour and wait for nothing. Unsigned indices spare numba's check for negative ones.
    """

    unit: UInt32  # (n_operators,) unit of each operator
    ms: FloatArray  # (n_operators, n_devices) times
    first_tensor: UInt32  # (n_operators + 1,) where each operator's tensors begin
    source: UInt32  # (n_tensors,) operator that makes the tensor
    first_reader: UInt32  # (n_tensors + 1,) where each tensor's readers begin
    readers: UInt32  # (n_readings,) operators
    transfer_ms: FloatArray  # (n_tensors, n_devices, n_devices), zero on the diagonal
    boundary_ms: FloatArray  # (n_tensors, n_devices), see ``CostTable.boundary_ms``
    n_inputs: UInt32  # (n_operators,) number of tensors that each operator reads

    @classmethod
    def from_units(cls, units: Units, costs: CostTable) -> Program:
        """The program of a graph's operators under their costs."""
        graph = units.graph
        tensors, n = graph.movable_tensors, len(graph)
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
            transfer_ms=np.ascontiguousarray(costs.transfer_ms[graph.movable[order]]),
            boundary_ms=np.ascontiguousarray(costs.boundary_ms[graph.movable[order]]),
            n_inputs=uint32(np.bincount(readers, minlength=n)),
        )


class Readings(NamedTuple):
    """The tensors that each operator reads, the transpose of ``Program.readers``."""

    first: UInt32  # (n_operators + 1,) where each operator's readings begin
    tensor: UInt32  # (n_readings,)
    producer: UInt32  # (n_readings,) operator that makes the tensor

    @classmethod
    def from_program(cls, program: Program) -> Readings:
        maker = np.repeat(np.arange(len(program.source)), np.diff(program.first_reader))
        tensor = uint32(maker[np.argsort(program.readers, kind="stable")])
        return cls(offsets(program.n_inputs), tensor, program.source[tensor])


class Flow(NamedTuple):
    """The edges that determine submodels: those between operators that do not follow."""

    # (n_leaders,) operators other than Constants, Parameters and Results; without any, the first
    # operator of each connected part
    leaders: UInt32
    first: UInt32  # (n_operators + 1,) where each operator's producers begin
    producers: UInt32  # (n_edges,)
    first_input: UInt32  # (n_parameters + 1,) where each Parameter's readers begin
    input_readers: UInt32  # (n_inputs,)

    @classmethod
    def from_graph(cls, graph: OpGraph) -> Flow:
        follows = graph.follows
        source, target = graph.edge_index
        real = ~(follows[source] | follows[target])
        source, target = source[real], target[real]
        order = np.argsort(target, kind="stable")
        leaders = np.flatnonzero(~follows)
        if not len(leaders):
            part = label_components(graph.edge_index, len(graph))
            leaders = np.unique(part, return_index=True)[1]
        readers = [reader for parameter in graph.inputs for reader in parameter]
        return cls(
            leaders=uint32(leaders),
            first=offsets(np.bincount(target, minlength=len(graph))),
            producers=uint32(source[order]),
            first_input=offsets(np.array([len(p) for p in graph.inputs], dtype=np.int64)),
            input_readers=uint32(np.array(readers, dtype=np.int64)),
        )


class Channels(NamedTuple):
    """The channels that a transfer between two devices occupies."""

    n: int  # number of channels
    send: Int32  # (n_devices, n_devices) first channel, or -1 if the transfer never waits
    receive: Int32  # (n_devices, n_devices) second channel, or -1

    @classmethod
    def from_contention(cls, contention: str, n_devices: int) -> Channels:
        """The channels of ``Semantics.contention``."""
        source, target = np.indices((n_devices, n_devices), dtype=np.int32).copy()
        none = np.full_like(source, -1)
        if contention == "none":
            return cls(1, none, none)
        if contention == "dest":
            return cls(n_devices, target, none)
        if contention == "both":
            return cls(n_devices, source, target)
        if contention == "link":
            low, high = np.minimum(source, target), np.maximum(source, target)
            return cls(n_devices**2, low * np.int32(n_devices) + high, none)
        return cls(n_devices, source, none)


def upward_rank(ms: FloatArray, transfer_ms: FloatArray, tensors: Tensors) -> FloatArray:
    """(n,) HEFT's upward rank: the longest path from each task to an end, the task included.

    Costs are means over devices (Topcuoglu et al. 2002). ``ms`` is (n, n_devices) of tasks in
    topological order, ``transfer_ms`` is (n_tensors, n_devices, n_devices), ``tensors`` are what
    tasks read from each other.
    """
    moved: list[float] = mean_transfers_ms(transfer_ms).tolist()
    own: list[float] = ms.mean(axis=1).tolist()
    rank, longest = list(own), [0.0] * len(own)
    tensor, reader = tensors.readings()
    maker = tensors.source[tensor]
    order = np.argsort(-maker, kind="stable")
    readings = zip(
        maker[order].tolist(), tensor[order].tolist(), reader[order].tolist(), strict=True
    )
    for source, what, target in readings:
        longest[source] = max(longest[source], moved[what] + rank[target])
        rank[source] = own[source] + longest[source]
    return np.array(rank)


def mean_transfers_ms(transfer_ms: FloatArray) -> FloatArray:
    """(n_tensors,) transfer times, averaged over pairs of devices."""
    n_devices = transfer_ms.shape[1]
    means: FloatArray = transfer_ms.sum(axis=(1, 2)) / max(n_devices * (n_devices - 1), 1)
    return means


def uint32(values: IntArray | UInt32) -> UInt32:
    return np.ascontiguousarray(values, dtype=np.uint32)


def offsets(counts: IntArray | UInt32) -> UInt32:
    return uint32(np.concatenate([[0], np.cumsum(counts)]))
