"""Operator graphs and cost tables written down by hand or drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import IntArray
from placement_gym.graph.operators import OpGraph, Tensors, distinct_edges
from placement_gym.graph.units import Units, contract, group
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem

Made = Sequence[tuple[int, Sequence[int]]]


def made_graph(
    n: int, made: Made, types: Sequence[str] = (), inputs: Sequence[Sequence[int]] = ()
) -> OpGraph:
    """A graph of ``n`` operators; ``made`` lists each tensor's source and readers."""
    tensors = Tensors(
        source=ints(source for source, _ in made),
        port=np.zeros(len(made), dtype=np.int64),
        size_bytes=np.full(len(made), 1000),
        offsets=np.cumsum([0, *(len(readers) for _, readers in made)]),
        readers=ints(reader for _, readers in made for reader in readers),
    )
    tensor, reader = tensors.readings()
    return OpGraph(
        model="drawn",
        names=tuple(f"op{i}" for i in range(n)),
        types=tuple(types) or ("Relu",) * n,
        shapes=((1, 8),) * n,
        element_types=("f32",) * n,
        members=tuple((f"op{i}",) for i in range(n)),
        weight_bytes=np.zeros(n, dtype=np.int64),
        flops=np.ones(n),
        edge_index=distinct_edges(np.stack([tensors.source[tensor], reader])),
        tensors=tensors,
        inputs=tuple(tuple(readers) for readers in inputs),
    )


def grouped(graph: OpGraph, labels: IntArray) -> Units:
    return Units("drawn", graph, labels, contract(graph, labels))


def cost_table(
    graph: OpGraph,
    operator_ms: Any,
    transfer_size: Any,
    link_ms: Any = 0.0,
    link_ms_per_size: Any = 1.0,
    submodel_ms: Any = 0.0,
    host: Any = False,
) -> CostTable:
    """Costs by hand; figures of devices or pairs of devices may be one for all."""
    ms = np.array(operator_ms, dtype=np.float64)
    n, d = ms.shape
    apart = 1.0 - np.eye(d)
    return CostTable(
        source="drawn",
        graph=graph.fingerprint(),
        operators=graph.names,
        devices=tuple(f"device{i}" for i in range(d)),
        operator_ms=ms,
        supported=np.ones((n, d), dtype=np.bool_),
        memory_bytes=np.zeros(n, dtype=np.int64),
        transfer_size=np.array(transfer_size, dtype=np.float64),
        transfer_unit="MB",
        link_ms=np.asarray(link_ms) * apart,
        link_ms_per_size=np.asarray(link_ms_per_size) * apart,
        submodel_ms=np.full(d, submodel_ms),
        host=np.full(d, host),
    )


def ints(values: Iterator[int] | Sequence[int]) -> IntArray:
    return np.array(list(values), dtype=np.int64)


def random_backend(seed: int, submodel_ms: float = 0.0, most: int = 8) -> SimulatedBackend:
    """A few operators on two or three devices, some refused, some limits tight."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, most + 1)), int(rng.integers(2, 4))
    d = d if n <= 9 else 2
    read = [(source, np.flatnonzero(rng.random(n) < 0.4)) for source in range(n) for _ in range(2)]
    made = [(source, readers[readers > source].tolist()) for source, readers in read]
    graph = made_graph(n, [(source, readers) for source, readers in made if readers])
    units = group(graph, "op")
    costs = cost_table(
        graph,
        rng.integers(0, 10, (n, d)) + rng.random((n, d)),
        rng.integers(1, 9, len(graph.tensors.source)),
        link_ms=rng.random((d, d)),
        link_ms_per_size=rng.random((d, d)),
        submodel_ms=submodel_ms,
    )
    limits = [None, *(float(share) for share in rng.choice([0.2, 0.5, 1.0], d - 1))]
    devices = [
        DeviceSpec(name, weight_share=share)
        for name, share in zip(costs.devices, limits, strict=True)
    ]
    supported = rng.random((n, d)) < 0.8
    supported[:, 0] = True
    operator_bytes = rng.integers(0, 100, n)
    return SimulatedBackend(Problem(units, tuple(devices), supported, operator_bytes), costs)
