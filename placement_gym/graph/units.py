"""Units: groups of operators that are placed together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from placement_gym.base import IntArray, UserError
from placement_gym.graph.operators import READER, WRITER, OpGraph, distinct_edges

FINER = {"colocated": "fused", "fused": "op"}
"""The next finer granularity."""
MIN_USEFUL_UNITS = 4
"""Fewer units leave almost nothing to place: a finer granularity takes their place. Hand-tuned."""


@dataclass(frozen=True, eq=False)
class Units:
    """A partition of the operators whose quotient is an acyclic, topologically numbered graph.

    Attributes:
        granularity: One of ``models.spec.GRANULARITIES``.
        graph: The operators.
        of_operator: (n_operators,) unit of each operator.
        quotient: The units as a graph; each has the name of its heaviest operator, and the type
            and shape of its last one. Its tensors are those that placements can move.
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
    """Group operators into units.

    Args:
        graph: Operators, raw or folded.
        granularity: ``"op"``: each operator alone. ``"colocated"``: an only child joins its only
            parent (HSDAG, appendix G). ``"fused"``: what the device executes as one primitive.
        primitives: For ``"fused"``, the primitive of each IR node that is part of one
            (``counters.query_primitives``).

    The operators that access a state are one unit at every granularity.

    Raises:
        ValueError: ``"fused"`` without primitives.
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
    """(n,) first operator of the chain of only children that each operator belongs to."""
    only_child, only_parent = graph.out_degree() == 1, graph.in_degree() == 1
    labels = list(range(len(graph)))
    for source, target in graph.edge_index.T.tolist():
        if only_child[source] and only_parent[target]:
            labels[target] = source
    for operator, parent in enumerate(labels):
        labels[operator] = labels[parent]
    return np.array(labels, dtype=np.int64)


def label_primitives(graph: OpGraph, primitives: Mapping[str, str]) -> IntArray:
    """(n,) group of each operator by primitive; one without joins its first consumer's group.

    An operator without primitive and consumer stays alone.
    """
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
    """Merge the groups that access one state, and those that are then in a cycle."""
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
    """(n,) connected component of each node, numbered by first nodes unless ``strong``.

    Args:
        edges: (2, n_edges) pairs of nodes.
        n: Number of nodes.
        strong: Whether edges have a direction: a component is then what depends on itself.
    """
    # Takes as long to import as a simulated environment to make, and few models need it.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    matrix = csr_array((np.ones(edges.shape[1], dtype=np.int8), (edges[0], edges[1])), (n, n))
    return connected_components(matrix, strong, "strong")[1].astype(np.int64)


def sort_labels(graph: OpGraph, labels: IntArray) -> IntArray:
    """Renumber an acyclic grouping: producers first, ties by the first operator of a group."""
    _, first, dense = np.unique(labels, return_index=True, return_inverse=True)
    edges = distinct_edges(dense[graph.edge_index])
    successors: list[list[int]] = [[] for _ in first]
    for source, target in edges.T.tolist():
        successors[source].append(target)
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
    """Build the quotient graph of a topologically numbered grouping."""
    n = int(labels.max()) + 1
    last_of_unit = last_operators(graph, labels, n)
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
    """(n,) the operator of each group with most arithmetic, then weights, then the last one.

    A group is named after what computes: states and constants only where there is nothing else.
    """
    weights = graph.weight_bytes - (0 if graph.state_bytes is None else graph.state_bytes)
    computes = ~np.isin(graph.types, (READER, WRITER, "Constant"))
    numbers = np.arange(len(graph))
    rank = np.empty_like(numbers)
    rank[np.lexsort((numbers, weights, graph.flops, computes))] = numbers
    highest = np.zeros(n, dtype=np.int64)
    np.maximum.at(highest, labels, rank)
    return np.argsort(rank)[highest]


def last_operators(graph: OpGraph, labels: IntArray, n: int) -> IntArray:
    """(n,) the last operator of each group, one that writes a state only if there is no other."""
    writes = np.array([kind == WRITER for kind in graph.types], dtype=np.bool_)
    rank = np.where(writes, 0, len(graph)) + np.arange(len(graph))
    highest = np.zeros(n, dtype=np.int64)
    np.maximum.at(highest, labels, rank)
    return highest % len(graph)


def count_units(units: Units) -> str:
    """``"1 unit"`` or ``"2 units"``."""
    return f"{len(units)} unit{'s' * (len(units) != 1)}"
