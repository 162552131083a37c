"""Groups from edges that are kept or cut, each by its own score; limits are respected."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from agents.hsdag.parsing import find_dominant_edges, renumber
from placement_gym.arrays import BoolArray, FloatArray, IntArray

SPREAD = 3.0
"""Standard deviation of what is added to all scores of a sample, so that some are coarse."""
FIRST_SCORE = -1.0
"""Mean score of edges before learning: most are cut."""


class Choices(NamedTuple):
    """Edges that were kept or cut.

    Attributes:
        ends: (2, k) their nodes.
        kept: (k,) bool.
        offset: Added to all scores before the choice.
    """

    ends: Tensor
    kept: Tensor
    offset: float


class Chosen(NamedTuple):
    """Groups, and how they came about.

    Attributes:
        group: (n,) group of each node, numbered in the order of their first nodes.
        decided: (k,) indices of the edges that were kept or cut.
        kept: (k,) bool.
    """

    group: IntArray
    decided: IntArray
    kept: BoolArray


def add_runs(edges: Tensor, n: int) -> Tensor:
    """(2, e + n - 1) edges, and those between neighbours in topological order."""
    nodes = torch.arange(n - 1, device=edges.device)
    return torch.cat([edges, torch.stack([nodes, nodes + 1])], dim=1)


def choose_edges(
    edges: IntArray,
    scores: FloatArray,
    depth: int,
    held: FloatArray,
    limit: float,
    allowed: BoolArray | None,
    rng: np.random.Generator | None,
) -> Chosen:
    """Keep or cut dominant edges, highest first; at each level those between groups follow.

    An edge whose groups together exceed the limit, or have no device in common, is cut without a
    choice.

    Args:
        edges: (2, e) nodes; their direction is ignored.
        scores: (e,) logits.
        depth: Number of levels.
        held: (n,) bytes of the nodes.
        limit: What a group may hold.
        allowed: (n, D) bool; None allows all.
        rng: Samples the choices; None keeps what is likelier kept than cut.
    """
    n = len(held)
    able = np.ones((n, 1), dtype=np.bool_) if allowed is None else allowed.copy()
    wished = scores > 0.0 if rng is None else scores > rng.logistic(size=len(scores))
    ranked = np.argsort(-scores, kind="stable")
    parent, held = np.arange(n), held.copy()
    group, decided, kept = np.arange(n), [], []
    for _ in range(depth):
        new = find_dominant_edges(group, edges, ranked)
        if not len(new):
            break
        for edge in new.tolist():
            a, b = find_root(parent, edges[0, edge]), find_root(parent, edges[1, edge])
            shared = able[a] & able[b]
            if a == b or held[a] + held[b] > limit or not shared.any():
                continue
            decided.append(edge)
            kept.append(bool(wished[edge]))
            if wished[edge]:
                parent[b] = a
                held[a] += held[b]
                able[a] = shared
        ranked = ranked[~np.isin(ranked, new)]
        group = find_roots(parent)
    return Chosen(
        renumber(group), np.array(decided, dtype=np.int64), np.array(kept, dtype=np.bool_)
    )


def find_root(parent: IntArray, node: int) -> int:
    """The root of a node's tree, whose paths are halved on the way."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return int(node)


def find_roots(parent: IntArray) -> IntArray:
    """(n,) root of each node's tree."""
    while True:
        above = parent[parent]
        if np.array_equal(above, parent):
            return above
        parent = above
