"""Units: groups of operators that share a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import IntArray, UserError
from placement_gym.graph.operators import READER, WRITER, OpGraph, distinct_edges, list_targets

FINER = {"colocated": "fused", "fused": "op"}
"""Granularity -> the next finer one."""
MIN_USEFUL_UNITS = 4
"""Minimum number of units before a finer granularity is used. Hand-tuned."""


@dataclass(frozen=True, eq=False)
class Units:
    """Partition of the operators into units.

    Attributes:
        granularity: One of ``models.spec.GRANULARITIES``.
        graph: The operators.
        of_operator: (n_operators,) unit of each operator.
        quotient: Acyclic graph of the units in topological order. A unit has the name of its
            heaviest operator, and the type and shape of its last. Tensors are those that placements
            can move.
    """

    granularity: str
    graph: OpGraph
    of_operator: IntArray
    quotient: OpGraph

    def __len__(self) -> int:
        return len(self.quotient)

    @property
    def names(self) -> tuple[str, ...]:
        return self.quotient.names


def group(
    graph: OpGraph, granularity: str = "colocated", primitives: Mapping[str, str] | None = None
) -> Units:
    """Group operators into units; operators that access a state are always one unit.

    Args:
        graph: Raw or folded operators.
        granularity: ``"op"``: single operators. ``"colocated"``: an only child joins its only
            parent (HSDAG, appendix G). ``"fused"``: operators that a device executes together.
        primitives: For ``"fused"``, IR node -> its primitive (``counters.query_primitives``).

    Raises:
        UserError: ``"fused"`` without primitives.
    """
    if granularity == "op":
        labels = np.arange(len(graph))
    elif granularity == "colocated":
        labels = label_chains(graph)
    elif primitives is None:
        raise UserError(f"granularity {granularity!r} needs primitives")
    else:
        labels = merge_cycles(graph, label_primitives(graph, primitives))
    labels = sort_labels(graph, join_states(graph, labels))
    return Units(granularity, graph, labels, contract(graph, labels))


def label_chains(graph: OpGraph) -> IntArray:
    """(n,) first operator of each operator's chain of only children."""
    only_child, only_parent = graph.out_degree() == 1, graph.in_degree() == 1
    labels = list(range(len(graph)))
    for source, target in graph.edge_index.T.tolist():
        if only_child[source] and only_parent[target]:
            labels[target] = source
    for operator, parent in enumerate(labels):
        labels[operator] = labels[parent]
    return np.array(labels, dtype=np.int64)


def label_primitives(graph: OpGraph, primitives: Mapping[str, str]) -> IntArray:
    """(n,) group of each operator by primitive; those without join their first consumer."""
    numbers: dict[str, int] = {}
    labels = np.full(len(graph), -1, dtype=np.int64)
    for operator, name in enumerate(graph.names):
        if name in primitives:
            labels[operator] = numbers.setdefault(primitives[name], operator)
    consumer = dict(reversed(graph.edge_index.T.tolist()))
    for operator in reversed(range(len(graph))):
        if labels[operator] < 0:
            follower = consumer.get(operator)
            labels[operator] = operator if follower is None else labels[follower]
    return labels


def join_states(graph: OpGraph, labels: IntArray) -> IntArray:
    """Merge groups that access one state, and then those in a cycle."""
    if not graph.states:
        return labels
    pairs = [(operators[0], operator) for operators in graph.states for operator in operators]
    merged = label_components(labels[np.array(pairs, dtype=np.int64).T], len(graph))
    return merge_cycles(graph, merged[labels])


def merge_cycles(graph: OpGraph, labels: IntArray) -> IntArray:
    """Merge groups that depend on each other in a cycle."""
    edges = distinct_edges(labels[graph.edge_index])
    return label_components(edges, len(graph), strong=True)[labels]


def label_components(edges: IntArray, n: int, strong: bool = False) -> IntArray:
    """(n,) component of each node, numbered by first nodes: connected, or ``strong``ly."""
    # Few models need scipy, whose import takes as long as making a simulated environment.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    matrix = csr_array((np.ones(edges.shape[1], dtype=np.int8), (edges[0], edges[1])), (n, n))
    return connected_components(matrix, strong, "strong")[1].astype(np.int64)


def sort_labels(graph: OpGraph, labels: IntArray) -> IntArray:
    """Number acyclic groups: producers first, then by first operators."""
    _, first, dense = np.unique(labels, return_index=True, return_inverse=True)
    edges = distinct_edges(dense[graph.edge_index])
    successors = list_targets(edges, len(first))
    waiting = np.bincount(edges[1], minlength=len(first)).tolist()
    ready = [(int(first[unit]), unit) for unit in range(len(first)) if not waiting[unit]]
    heapify(ready)
    order = np.empty(len(first), dtype=np.int64)
    for position in range(len(first)):
        unit = heappop(ready)[1]
        order[unit] = position
        for target in successors[unit]:
            waiting[target] -= 1
            if not waiting[target]:
                heappush(ready, (int(first[target]), target))
    return order[dense]


def contract(graph: OpGraph, labels: IntArray) -> OpGraph:
    """Build the graph of topologically numbered groups."""
    n = int(labels.max()) + 1
    writes = np.array([kind == WRITER for kind in graph.types], dtype=np.bool_)
    last_of_unit = last_of_groups(labels, n, ~writes)
    members: list[list[str]] = [[] for _ in range(n)]
    for operator, unit in enumerate(labels.tolist()):
        members[unit] += graph.members[operator]
    movable = graph.movable_tensors
    tensor, reader = movable.readings()
    return OpGraph(
        model=graph.model,
        names=tuple(graph.names[operator] for operator in heaviest_operators(graph, labels, n)),
        types=tuple(graph.types[operator] for operator in last_of_unit),
        shapes=tuple(graph.shapes[operator] for operator in last_of_unit),
        element_types=tuple(graph.element_types[operator] for operator in last_of_unit),
        members=tuple(tuple(names) for names in members),
        weight_bytes=np.bincount(labels, graph.weight_bytes, n).astype(np.int64),
        flops=np.bincount(labels, graph.flops, n).astype(np.float64),
        edge_index=distinct_edges(labels[graph.edge_index]),
        tensors=movable.read_by(tensor, labels[reader], labels[movable.source]),
        inputs=tuple(
            tuple(sorted({int(labels[operator]) for operator in readers}))
            for readers in graph.inputs
        ),
    )


def heaviest_operators(graph: OpGraph, labels: IntArray, n: int) -> IntArray:
    """(n,) operator of each group with most arithmetic, then weights, then the last.

    States and constants count only in groups of nothing else.
    """
    weights = graph.weight_bytes - (0 if graph.state_bytes is None else graph.state_bytes)
    computes = ~np.isin(graph.types, (READER, WRITER, "Constant"))
    return last_of_groups(labels, n, weights, graph.flops, computes)


def last_of_groups(labels: IntArray, n: int, *keys: NDArray[Any]) -> IntArray:
    """(n,) last operator of each group in the order of ``keys``, see ``np.lexsort``."""
    order = np.lexsort(keys)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    highest = np.zeros(n, dtype=np.int64)
    np.maximum.at(highest, labels, rank)
    return order[highest]


def count_units(units: Units) -> str:
    """Return ``"1 unit"`` or ``"2 units"``."""
    return f"{len(units)} unit{'s' * (len(units) != 1)}"
