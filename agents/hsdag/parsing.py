"""Graph parsing: which nodes are placed together (HSDAG, 2.4; Graph Parsing Networks)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from placement_gym.arrays import BoolArray, Float32Array, FloatArray, IntArray


class Partition(NamedTuple):
    """Groups of nodes.

    Attributes:
        group: (n,) group of each node; groups are numbered in the order of their first nodes.
        kept: (k,) indices of the edges that connect the groups, a forest.
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
    """Merge nodes along the edges of highest score.

    At each level every group keeps its dominant edge, the highest-scoring one to another group,
    and groups connected by kept edges become one. These are the rounds of Boruvka's algorithm for
    the maximum spanning forest; the first round is the paper's parsing. The level that would leave
    fewer than ``min_groups`` groups keeps its highest edges only, and is the last.

    Args:
        n: Number of nodes.
        edges: (2, e) node indices; their direction is ignored.
        scores: (e,) scores; ties are won by the earlier edge.
        depth: Number of levels; 0 makes every node a group of its own.
        min_groups: Minimum number of groups, if there are as many nodes.
        allowed: (n, D) bool; the nodes of a group must have an allowed device in common.
    """
    ranked = np.argsort(-scores, kind="stable")
    kept = np.empty(0, dtype=np.int64)
    group = np.arange(n)
    n_groups = n
    for _ in range(depth):
        new = find_dominant_edges(group, edges, ranked)[: max(n_groups - min_groups, 0)]
        if not len(new):
            break
        kept = np.concatenate([kept, new])
        group = find_components(n, edges[:, kept])
        n_groups = int(group.max()) + 1
    partition = Partition(group, kept)
    return partition if allowed is None else split_incompatible(partition, edges, scores, allowed)


def find_dominant_edges(group: IntArray, edges: IntArray, ranked: IntArray) -> IntArray:
    """Find the highest edge of each group to another one; highest first, without duplicates."""
    ends = group[edges[:, ranked]]
    between = ends[0] != ends[1]
    candidates, ends = ranked[between], ends[:, between]
    _, first = np.unique(ends.T.ravel(), return_index=True)
    return candidates[np.unique(first // 2)]


def find_components(n: int, edges: IntArray) -> IntArray:
    """(n,) connected component of each node, numbered in the order of their first nodes."""
    matrix = coo_array((np.ones(edges.shape[1], dtype=np.int8), (edges[0], edges[1])), (n, n))
    return renumber(connected_components(matrix, directed=False)[1])


def split_incompatible(
    partition: Partition, edges: IntArray, scores: FloatArray, allowed: BoolArray
) -> Partition:
    """Remove the lowest edges of groups until some device supports each whole group."""
    group, kept = partition
    while True:
        runnable: BoolArray = np.any(intersect_allowed(group, allowed), axis=1)
        bad = ~runnable[group[edges[0, kept]]]
        if not bad.any():
            return Partition(group, kept)
        by_group = np.lexsort((scores[kept], group[edges[0, kept]]))
        by_group = by_group[bad[by_group]]
        _, lowest = np.unique(group[edges[0, kept[by_group]]], return_index=True)
        kept = np.delete(kept, by_group[lowest])
        group = find_components(len(group), edges[:, kept])


def merge_alike(
    partition: Partition,
    features: Float32Array,
    planes: Float32Array,
    allowed: BoolArray | None = None,
) -> Partition:
    """Merge groups whose mean features lie on the same sides of all planes.

    What repeats in a graph, such as the layers of a transformer, is then decided once.

    Args:
        partition: Groups of n nodes.
        features: (n, f) features of the nodes.
        planes: (f, k) normals of planes through the mean of all groups.
        allowed: (n, D) bool; only groups that allow the same devices are merged.
    """
    group, kept = partition
    sums = np.zeros((int(group.max()) + 1, features.shape[1]))
    np.add.at(sums, group, features)
    means = sums / np.bincount(group)[:, None]
    code = (means - means.mean(axis=0)) @ planes > 0
    if allowed is not None:
        code = np.concatenate([code, intersect_allowed(group, allowed)], axis=1)
    merged = np.unique(code, axis=0, return_inverse=True)[1].ravel()
    return Partition(renumber(merged[group]), kept)


def intersect_allowed(group: IntArray, allowed: BoolArray) -> BoolArray:
    """(n_groups, D) bool, the devices that all nodes of each group allow."""
    result = np.ones((int(group.max()) + 1, allowed.shape[1]), dtype=np.bool_)
    np.logical_and.at(result, group, allowed)
    return result


def renumber(labels: IntArray) -> IntArray:
    """Renumber labels from 0 in the order of their first occurrence."""
    _, first, dense = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[dense].astype(np.int64)
