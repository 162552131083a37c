"""Graph parsing: which units are placed together (HSDAG, 2.4; Graph Parsing Networks)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from placement_gym.arrays import BoolArray, Float32Array, FloatArray, IntArray


class Partition(NamedTuple):
    """Groups of nodes.

    Attributes:
        group: (n,) group of each node, numbered by their first nodes.
        kept: (k,) indices of the edges that hold the groups together, a forest.
    """

    group: IntArray
    kept: IntArray


def parse(
    n: int,
    edges: IntArray,
    scores: FloatArray,
    depth: int = 1,
    min_groups: int = 1,
    allowed: BoolArray | None = None,
) -> Partition:
    """Groups along the edges of highest score.

    At each level every group keeps its dominant edge, the highest-scoring one to another group;
    what kept edges connect becomes one group. These are Boruvka's rounds for the maximum
    spanning forest, the first of them the paper's parsing. The level at which there would be
    fewer than ``min_groups`` keeps its highest edges only, and is the last.

    Args:
        n: Nodes.
        edges: (2, e) node indices, their direction of no meaning.
        scores: (e,); of equal ones the earlier edge counts as higher.
        depth: Levels; 0 leaves every node alone.
        min_groups: Groups there are at least, if there are as many nodes.
        allowed: (n, D) bool; a group's nodes have an allowed device in common.
    """
    ranked = np.argsort(-scores, kind="stable")
    kept = np.empty(0, dtype=np.int64)
    group = np.arange(n)
    n_groups = n
    for _ in range(depth):
        new = dominant(group, edges, ranked)[: max(n_groups - min_groups, 0)]
        if not len(new):
            break
        kept = np.concatenate([kept, new])
        group = components(n, edges[:, kept])
        n_groups = int(group.max()) + 1
    partition = Partition(group, kept)
    return partition if allowed is None else compatible(partition, edges, scores, allowed)


def dominant(group: IntArray, edges: IntArray, ranked: IntArray) -> IntArray:
    """The highest edge of each group to another, best first, each once."""
    ends = group[edges[:, ranked]]
    between = ends[0] != ends[1]
    candidates, ends = ranked[between], ends[:, between]
    _, first = np.unique(ends.T.ravel(), return_index=True)
    return candidates[np.unique(first // 2)]


def components(n: int, edges: IntArray) -> IntArray:
    """(n,) connected component of each node, numbered by their first nodes."""
    matrix = coo_array((np.ones(edges.shape[1], dtype=np.int8), (edges[0], edges[1])), (n, n))
    return numbered(connected_components(matrix, directed=False)[1])


def compatible(
    partition: Partition, edges: IntArray, scores: FloatArray, allowed: BoolArray
) -> Partition:
    """The partition without the lowest edges of groups that no device could run."""
    group, kept = partition
    while True:
        runnable: BoolArray = np.any(common(group, allowed), axis=1)
        bad = ~runnable[group[edges[0, kept]]]
        if not bad.any():
            return Partition(group, kept)
        by_group = np.lexsort((scores[kept], group[edges[0, kept]]))
        by_group = by_group[bad[by_group]]
        _, lowest = np.unique(group[edges[0, kept[by_group]]], return_index=True)
        kept = np.delete(kept, by_group[lowest])
        group = components(len(group), edges[:, kept])


def alike(
    partition: Partition,
    features: Float32Array,
    planes: Float32Array,
    allowed: BoolArray | None = None,
) -> Partition:
    """The partition with groups made one whose mean features lie between the same planes.

    What repeats in a graph, as the layers of a transformer, is then decided once.

    Args:
        partition: Groups of n nodes.
        features: (n, f).
        planes: (f, k) normals of planes through the mean of all groups.
        allowed: (n, D) bool; only groups that allow the same devices become one.
    """
    group, kept = partition
    sums = np.zeros((int(group.max()) + 1, features.shape[1]))
    np.add.at(sums, group, features)
    means = sums / np.bincount(group)[:, None]
    code = (means - means.mean(axis=0)) @ planes > 0
    if allowed is not None:
        code = np.concatenate([code, common(group, allowed)], axis=1)
    merged = np.unique(code, axis=0, return_inverse=True)[1].ravel()
    return Partition(numbered(merged[group]), kept)


def common(group: IntArray, allowed: BoolArray) -> BoolArray:
    """(n_groups, D) what all nodes of each group allow."""
    result = np.ones((int(group.max()) + 1, allowed.shape[1]), dtype=np.bool_)
    np.logical_and.at(result, group, allowed)
    return result


def numbered(labels: IntArray) -> IntArray:
    """The labels renumbered by their first occurrence."""
    _, first, dense = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[dense].astype(np.int64)
