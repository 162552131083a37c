"""Operator graphs and cost tables written down by hand or drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.graph import OpGraph, Tensors, Units, contract, distinct_edges, group
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable

Made = Sequence[tuple[int, Sequence[int]]]


def made_graph(
    n: int,
    made: Made,
    types: Sequence[str] = (),
    inputs: Sequence[Sequence[int]] = (),
    size_bytes: int = 1000,
    weight_bytes: int = 0,
) -> OpGraph:
    """A graph of ``n`` operators; ``made`` lists each tensor's source and readers."""
    tensors = Tensors(
        source=ints(source for source, _ in made),
        port=np.zeros(len(made), dtype=np.int64),
        size_bytes=np.full(len(made), size_bytes),
        offsets=np.cumsum([0, *(len(readers) for _, readers in made)]),
        readers=ints(reader for _, readers in made for reader in readers),
    )
    tensor, reader = tensors.readings()
    return OpGraph(
        model="by hand",
        names=tuple(f"op{i}" for i in range(n)),
        types=tuple(types) or ("Relu",) * n,
        shapes=((1, 8),) * n,
        element_types=("f32",) * n,
        members=tuple((f"op{i}",) for i in range(n)),
        weight_bytes=np.full(n, weight_bytes, dtype=np.int64),
        flops=np.ones(n),
        edge_index=distinct_edges(np.stack([tensors.source[tensor], reader])),
        tensors=tensors,
        inputs=tuple(tuple(readers) for readers in inputs),
    )


def chain(n: int, **kwargs: Any) -> OpGraph:
    """Operators in a row, each of which reads the one before."""
    return made_graph(n, [(i, [i + 1]) for i in range(n - 1)], **kwargs)


def grouped(graph: OpGraph, labels: ArrayLike | None = None) -> Units:
    """Units by the number of each operator's; each operator alone by default."""
    of_operator = np.arange(len(graph)) if labels is None else np.asarray(labels)
    return Units("drawn", graph, of_operator, contract(graph, of_operator))


def draw_labels(rng: np.random.Generator, n: int) -> IntArray:
    """Numbers of units that hold any of ``n`` operators."""
    return np.unique(rng.integers(0, n, n), return_inverse=True)[1]


def cost_table(
    graph: OpGraph,
    operator_ms: Any,
    transfer_size: Any,
    link_ms: Any = 0.0,
    link_ms_per_size: Any = 1.0,
    submodel_ms: Any = 0.0,
    host: Any = False,
    **changes: Any,
) -> CostTable:
    """Costs by hand; figures of devices or pairs of devices may be one for all.

    ``changes`` replace fields of the table.
    """
    ms = np.array(operator_ms, dtype=np.float64)
    n, d = ms.shape
    apart = 1.0 - np.eye(d)
    table = CostTable(
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
    return replace(table, **changes)


def ints(values: Iterator[int] | Sequence[int]) -> IntArray:
    return np.array(list(values), dtype=np.int64)


def draw_made(rng: np.random.Generator, n: int, share: float = 0.4, each: int = 1) -> Made:
    """``each`` tensors an operator, which any later operator reads by chance; unread ones go."""
    made = []
    for source in np.repeat(np.arange(n), each).tolist():
        readers = np.flatnonzero(rng.random(n) < share)
        made.append((source, readers[readers > source].tolist()))
    return [(source, readers) for source, readers in made if readers]


def problem_of(
    units: Units,
    costs: CostTable,
    operator_bytes: IntArray | None = None,
    supported: BoolArray | None = None,
    **limits: Sequence[float | None],
) -> Problem:
    """A problem on the devices of a table.

    Args:
        units: What is placed.
        costs: Names the devices.
        operator_bytes: Those of the graph by default.
        supported: By default every device runs every unit.
        **limits: Of ``DeviceSpec``, one value for each device.
    """
    devices = tuple(
        DeviceSpec(name, **{key: values[i] for key, values in limits.items()})
        for i, name in enumerate(costs.devices)
    )
    if supported is None:
        supported = np.ones((len(units), len(devices)), dtype=np.bool_)
    return Problem(units, devices, supported, operator_bytes)


def row_of_two(**limits: Sequence[float | None]) -> tuple[Problem, CostTable]:
    """Two operators in a row: 4 and 2 ms on one device, 1 and 3 ms on the other; 1 ms between."""
    units = grouped(made_graph(2, [(0, [1])]), np.arange(2))
    costs = cost_table(units.graph, [[4, 1], [2, 3]], [1])
    return problem_of(units, costs, np.array([10, 10]), **limits), costs


def every_placement(problem: Problem) -> IntArray:
    return np.array(list(product(range(len(problem.devices)), repeat=problem.n_units)))


def feasible_placements(backend: SimulatedBackend) -> tuple[IntArray, FloatArray]:
    """Every feasible placement and its latency in ms."""
    every = every_placement(backend.problem)
    latency_ms, feasible = backend.evaluate_batch_exactly(every)
    return every[feasible], latency_ms[feasible]


def feasible_ms(backend: SimulatedBackend, assignment: IntArray | None) -> float:
    """The latency of a placement, which there has to be and which has to be feasible."""
    assert assignment is not None
    assert backend.problem.infeasibility(assignment) == ""
    return backend.evaluate_ignoring_limits(assignment).latency_ms


def find_least_ms(backend: SimulatedBackend) -> float:
    """The lowest latency of all feasible placements; infinite if there are none."""
    return float(feasible_placements(backend)[1].min(initial=np.inf))


def random_backend(seed: int, submodel_ms: float = 0.0, most: int = 8) -> SimulatedBackend:
    """A few operators on two or three devices, some refused, some limits tight."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, most + 1)), int(rng.integers(2, 4))
    d = d if n <= 9 else 2
    graph = made_graph(n, draw_made(rng, n, each=2))
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
    supported = rng.random((n, d)) < 0.8
    supported[:, 0] = True
    held = rng.integers(0, 100, n)
    return SimulatedBackend(problem_of(units, costs, held, supported, weight_share=limits), costs)
