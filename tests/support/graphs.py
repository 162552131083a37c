"""Graphs and problems made by hand or at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from placement_gym import DeviceSpec
from placement_gym.base.arrays import IntArray
from placement_gym.graph.operators import OpGraph, Tensors, distinct_edges
from placement_gym.graph.units import Units, group
from placement_gym.problem.problem import Problem

TWO_DEVICES = (DeviceSpec("CPU", threads=1), DeviceSpec("CPU_FAST", plugin="CPU", threads=1))
Edges = Sequence[tuple[int, int]]


def op_graph(
    n: int,
    edges: Edges,
    inputs: Sequence[Sequence[int]] = (),
    types: Sequence[str] = (),
    size_bytes: int = 1000,
    weight_bytes: int = 0,
) -> OpGraph:
    """A graph of ``n`` operators, each with one output tensor."""
    edge_index = distinct_edges(np.array(edges, dtype=np.int64).reshape(-1, 2).T)
    sources, counts = np.unique(edge_index[0], return_counts=True)
    return OpGraph(
        model="by hand",
        names=tuple(f"op{i}" for i in range(n)),
        types=tuple(types) or ("Relu",) * n,
        shapes=((1, 8),) * n,
        element_types=("f32",) * n,
        members=tuple((f"op{i}",) for i in range(n)),
        weight_bytes=np.full(n, weight_bytes, dtype=np.int64),
        flops=np.ones(n),
        edge_index=edge_index,
        tensors=Tensors(
            source=sources,
            port=np.zeros(len(sources), dtype=np.int64),
            size_bytes=np.full(len(sources), size_bytes, dtype=np.int64),
            offsets=np.concatenate([[0], np.cumsum(counts)]),
            readers=edge_index[1],
        ),
        inputs=tuple(tuple(readers) for readers in inputs),
    )


def chain(n: int, **kwargs: int) -> OpGraph:
    return op_graph(n, [(i, i + 1) for i in range(n - 1)], **kwargs)


@st.composite
def op_graphs(draw: st.DrawFn, max_size: int = 12) -> OpGraph:
    """Random acyclic graphs whose sources read one of up to two model inputs."""
    n = draw(st.integers(1, max_size))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=2 * n)) if pairs else []
    readers = st.lists(st.integers(0, n - 1), unique=True, max_size=4).map(sorted)
    return op_graph(n, edges, draw(st.lists(readers, max_size=2)))


def is_topological(edges: IntArray) -> bool:
    """Whether every edge of a (2, n_edges) array leads to a higher number."""
    return bool((edges[0] < edges[1]).all())


def problem_on(
    graph: OpGraph, devices: tuple[DeviceSpec, ...] = TWO_DEVICES, granularity: str = "op"
) -> Problem:
    """A problem whose devices support every unit."""
    units: Units = group(graph, granularity)
    return Problem(units, devices, np.ones((len(units), len(devices)), dtype=np.bool_))
