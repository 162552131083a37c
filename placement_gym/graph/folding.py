"""Folding of a raw graph: nodes that need no data join the operators that read them."""

from __future__ import annotations

import numpy as np

from placement_gym.base import BoolArray, IntArray
from placement_gym.graph.operators import QUANTIZE, OpGraph, distinct_edges, list_targets

NEVER_STATIC = frozenset(
    {"Result", "RandomUniform", "Multinomial", "ReadValue", "Assign", "TensorIterator"}
)
"""Types that each inference computes, even on constants."""


def fold(raw: OpGraph, dynamic: bool = False) -> OpGraph:
    """Fold static values, Parameters, Results and rounding into the operators that compute.

    A static value is a member of its first reader, and its bytes count for each reader, because
    every submodel gets a copy; it has no edges. The same holds for nodes that round an activation,
    whose readers then read the activation.

    Args:
        raw: Graph of all IR nodes.
        dynamic: Dimensions are dynamic, so each copy of a Parameter's shape reads the Parameter.
    """
    # Each reader of a static value owns it.
    static = static_nodes(raw)
    rounds, integers = find_rounded(raw, static)
    owners = operator_owners(raw, static, rounds)
    # Number the operators that remain; a folded node is a member of its first owner.
    is_owner = np.array([owner == (node,) for node, owner in enumerate(owners)])
    number = np.cumsum(is_owner) - 1
    label = np.array([number[owner[0]] for owner in owners], dtype=np.int64)
    # A static node that reads a Parameter, such as ShapeOf, reads it for its first owner; if sizes
    # are dynamic, for all owners.
    reading = [
        number[list(owner[:1] if is_known and not dynamic else owner)].tolist()
        for owner, is_known in zip(owners, static, strict=True)
    ]
    kept_nodes = np.flatnonzero(is_owner).tolist()
    members: list[list[str]] = [[] for _ in kept_nodes]
    for node, name in enumerate(raw.names):
        members[label[node]].append(name)
    weights = np.zeros(len(kept_nodes), dtype=np.int64)
    for owner, held in zip(owners, raw.weight_bytes.tolist(), strict=True):
        weights[number[list(owner)]] += held
    # Readings of static values are no edges: each reader gets a copy when a placement is applied.
    tensor, reader = fan_out(*raw.tensors.readings(), owners)
    flowing = is_owner[raw.tensors.source[tensor]]
    tensor, reader = tensor[flowing], number[reader[flowing]]
    tensors = raw.tensors.read_by(tensor, reader, label[raw.tensors.source])
    return OpGraph(
        model=raw.model,
        names=tuple(raw.names[node] for node in kept_nodes),
        types=tuple(raw.types[node] for node in kept_nodes),
        shapes=tuple(raw.shapes[node] for node in kept_nodes),
        element_types=tuple(raw.element_types[node] for node in kept_nodes),
        members=tuple(tuple(names) for names in members),
        weight_bytes=weights,
        flops=raw.flops[is_owner],
        edge_index=distinct_edges(np.stack([label[raw.tensors.source[tensor]], reader])),
        tensors=tensors,
        inputs=tuple(
            tuple(sorted({owner for node in readers for owner in reading[node]}))
            for readers in raw.inputs
        ),
        states=tuple(tuple(sorted({int(label[node]) for node in state})) for state in raw.states),
        state_bytes=None
        if raw.state_bytes is None
        else np.bincount(label, raw.state_bytes, len(kept_nodes)).astype(np.int64),
        integers=integers[is_owner],
        outputs=tuple(sorted({int(label[node]) for node in raw.outputs})),
        bodies={int(number[node]): inside for node, inside in raw.bodies.items() if is_owner[node]},
    )


def find_rounded(raw: OpGraph, static: list[bool]) -> tuple[list[bool], BoolArray]:
    """(n,) each: whether nodes only round activations, and whether they read only rounded ones."""
    if QUANTIZE not in raw.types:
        return [False] * len(raw), np.zeros(len(raw), dtype=np.bool_)
    from placement_gym.graph.rounding import reads_rounded, rounding_nodes

    rounds = rounding_nodes(raw, static)
    return rounds, reads_rounded(raw, static, rounds)


def fan_out(
    tensor: IntArray, reader: IntArray, owners: list[tuple[int, ...]]
) -> tuple[IntArray, IntArray]:
    """Replace readings by folded nodes by readings of their owners."""
    counts = np.array([len(owners[node]) for node in reader.tolist()], dtype=np.int64)
    targets = [owner for node in reader.tolist() for owner in owners[node]]
    return np.repeat(tensor, counts), np.array(targets, dtype=np.int64)


def operator_owners(raw: OpGraph, static: list[bool], rounds: list[bool]) -> list[tuple[int, ...]]:
    """Return the ascending operators that own each IR node; an operator owns itself."""
    readers = list_targets(raw.edge_index, len(raw))
    owners: list[tuple[int, ...]] = [(node,) for node in range(len(raw))]
    for node in reversed(range(len(raw))):
        real = [target for target in readers[node] if raw.types[target] != "Result"]
        if real and (static[node] or rounds[node] or raw.types[node] == "Parameter"):
            owners[node] = tuple(sorted({owner for target in real for owner in owners[target]}))
    for source, target in raw.edge_index.T.tolist():
        if raw.types[target] == "Result":
            owners[target] = owners[source]
    return owners


def static_nodes(raw: OpGraph) -> list[bool]:
    """(n,) whether each value is known without data: constants, their converts, shapes."""
    static: list[bool] = []
    for node, (kind, sources) in enumerate(zip(raw.types, raw.predecessors(), strict=True)):
        is_known = bool(sources) and all(static[source] for source in sources)
        types = {kind}.union(*(body.graph.types for body in raw.bodies.get(node, ())))
        static.append(kind in ("Constant", "ShapeOf") or (is_known and not types & NEVER_STATIC))
    return static
