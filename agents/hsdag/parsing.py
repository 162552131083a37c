"""Graph parsing: which nodes are placed together (HSDAG, 2.4; Graph Parsing Networks)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base.arrays import BoolArray, FloatArray, IntArray
from placement_gym.graph.units import label_components


class Partition(NamedTuple):
    """Groups of nodes.

    Attributes:
        group: (n,) group of each node; groups are numbered in the order of their first nodes.
        forest: (k,) indices of the edges that connect the groups, a forest.
    """

    group: IntArray
    forest: IntArray


def parse(
    n: int, edges: IntArray, scores: FloatArray, depth: int = 1, allowed: BoolArray | None = None
) -> Partition:
    """Merge nodes along the edges of highest score.

    At each level every group keeps its dominant edge, the highest-scoring one to another group,
    and groups connected by kept edges become one. These are the rounds of Boruvka's algorithm for
    the maximum spanning forest; the first round is the paper's parsing.

    Args:
        n: Number of nodes.
        edges: (2, e) node indices; their direction is ignored.
        scores: (e,) logits of scores; ties are won by the earlier edge.
        depth: Number of levels; 0 makes every node a group of its own.
        allowed: (n, D) bool; the nodes of a group must have an allowed device in common.
    """
    ranked = np.argsort(-scores, kind="stable")
    forest = np.empty(0, dtype=np.int64)
    group = np.arange(n)
    for _ in range(depth):
        new = find_dominant_edges(group, edges, ranked)
        if not len(new):
            break
        forest = np.concatenate([forest, new])
        group = label_components(edges[:, forest], n)
    partition = Partition(group, forest)
    return partition if allowed is None else split_incompatible(partition, edges, scores, allowed)


def find_dominant_edges(group: IntArray, edges: IntArray, ranked: IntArray) -> IntArray:
    """Find the highest edge of each group to another one; highest first, without duplicates."""
    ends = group[edges[:, ranked]]
    between = ends[0] != ends[1]
    candidates, ends = ranked[between], ends[:, between]
    _, first = np.unique(ends.T.ravel(), return_index=True)
    return candidates[np.unique(first // 2)]


def split_incompatible(
    partition: Partition, edges: IntArray, scores: FloatArray, allowed: BoolArray
) -> Partition:
    """Remove the lowest edges of groups until some device supports each whole group.

    Deviation: the paper's two devices run everything.
    """
    group, forest = partition
    while True:
        runnable: BoolArray = np.any(intersect_allowed(group, allowed), axis=1)
        bad = ~runnable[group[edges[0, forest]]]
        if not bad.any():
            return Partition(group, forest)
        by_group = np.lexsort((scores[forest], group[edges[0, forest]]))
        by_group = by_group[bad[by_group]]
        _, lowest = np.unique(group[edges[0, forest[by_group]]], return_index=True)
        forest = np.delete(forest, by_group[lowest])
        group = label_components(edges[:, forest], len(group))


def intersect_allowed(group: IntArray, allowed: BoolArray) -> BoolArray:
    """(n_groups, D) bool, the devices that all nodes of each group allow."""
    result = np.ones((int(group.max()) + 1, allowed.shape[1]), dtype=np.bool_)
    np.logical_and.at(result, group, allowed)
    return result
