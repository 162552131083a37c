"""Coarsening: units are merged into ever larger clusters whose graph stays acyclic.

Neighbours are joined where that saves most transfers, by the rule of dagP (Herrmann et al. 2019,
"Multilevel algorithms for acyclic partitioning of directed acyclic graphs", theorem 4.2): levels
within a cluster differ by at most one, and no edge between levels that differ by one connects two
clusters of several members. Where that joins few, clusters of equal level that share a neighbour
are paired: every edge then still leads to a higher level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.levels.levels import Level

COARSEST = 100
LARGEST_SHARE = 0.125
"""Share of the smallest memory limit, and of the total time, that a cluster may hold."""
ENOUGH = 0.9
"""If a round leaves more than this share of the clusters, clusters of one level are paired."""
STALLED = 0.97
MOST_NEIGHBOURS = 100
"""Siblings are not looked for at a neighbour that has more, as that would take quadratic time."""
NOTHING_MS = 1e-200
"""Makes rates finite where nothing takes time; far below every time."""
NONE, SEVERAL = -1, -2


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Levels from the finest, whose clusters are units, to the coarsest.

    Attributes:
        levels: The levels.
        parents: (n,) cluster of the next level that each cluster belongs to, for every level but
            the coarsest.
    """

    levels: tuple[Level, ...]
    parents: tuple[IntArray, ...]

    def of_units(self, level: int) -> IntArray:
        """(n_units,) cluster of each unit on a level."""
        clusters = np.arange(len(self.levels[0].ms))
        for parent in self.parents[:level]:
            clusters = parent[clusters]
        return clusters


class Graph(NamedTuple):
    """Edges between clusters, and the level of each: the longest path to it, in edges.

    Attributes:
        first_out: (n + 1,) where each cluster's outgoing edges begin.
        heads: (n_edges,) their heads.
        first: (n + 1,) where all its edges begin.
        neighbours: (2 n_edges,) their other ends.
        saved: (2 n_edges,) transfers that joining the two saves, ms.
        depth: (n,) the level.
    """

    first_out: IntArray
    heads: IntArray
    first: IntArray
    neighbours: IntArray
    saved: FloatArray
    depth: IntArray

    @classmethod
    def of(cls, level: Level) -> Graph:
        n = len(level.ms)
        edges, saved = level.edges()
        tails, heads = edges
        ends = np.concatenate([tails, heads])
        order = np.argsort(ends, kind="stable")
        numbers = np.arange(n + 1)
        first_out = np.searchsorted(tails, numbers)
        return cls(
            first_out=first_out,
            heads=heads,
            first=np.searchsorted(ends[order], numbers),
            neighbours=np.concatenate([heads, tails])[order],
            saved=np.concatenate([saved, saved])[order],
            depth=longest_paths(first_out, heads, n),
        )


def coarsen(
    problem: Problem, costs: CostTable, rng: np.random.Generator, coarsest: int = COARSEST
) -> Hierarchy:
    """Merge units until few clusters are left, or no more may be merged.

    A merge is rated by the transfers that it saves per millisecond of the two clusters' mean times.
    Clusters that differ in support are not merged, nor those that would together hold more than
    ``LARGEST_SHARE`` of the smallest memory limit or of the total time.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        rng: Draws the order in which clusters are visited.
        coarsest: Number of clusters at which it stops.
    """
    level = Level.of_units(problem, costs)
    levels, parents = [level], []
    most = LARGEST_SHARE * problem.limits_bytes.min(), LARGEST_SHARE * level.ms.mean(axis=1).sum()
    while len(level.ms) > coarsest:
        labels = merge_once(level, most, rng)
        if labels.max() + 1 > STALLED * len(level.ms):
            break
        level = level.contract(labels)
        levels.append(level)
        parents.append(labels)
    return Hierarchy(tuple(levels), tuple(parents))


def merge_once(level: Level, most: tuple[float, float], rng: np.random.Generator) -> IntArray:
    """(n,) new cluster of each cluster after one round, in topological order."""
    n = len(level.ms)
    graph, order = Graph.of(level), rng.permutation(n)
    kind = number_rows(level.possible)
    mean_ms = level.ms.mean(axis=1)
    leader = join_neighbours(graph, order, kind, level.held, mean_ms, *most)
    if len(np.unique(leader)) > ENOUGH * n:
        leader = pair_siblings(graph, order, kind, level.held, mean_ms, *most)
    _, labels = np.unique(leader, return_inverse=True)
    edges = labels[np.stack([np.repeat(np.arange(n), np.diff(graph.first_out)), graph.heads])]
    return number_topologically(edges, int(labels.max()) + 1)[labels]


def number_rows(rows: BoolArray) -> IntArray:
    """(n,) number of each row, the same for equal rows."""
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def number_topologically(edges: IntArray, n: int) -> IntArray:
    """(n,) position of each node in a topological order of an acyclic graph."""
    tails, heads = edges[:, np.argsort(edges[0], kind="stable")]
    apart = tails != heads
    return sort_nodes(np.searchsorted(tails[apart], np.arange(n + 1)), heads[apart], n)


@njit(cache=True, nogil=True)
def sort_nodes(first_out: IntArray, heads: IntArray, n: int) -> IntArray:
    """(n,) position of each node in a topological order; -1 for nodes in cycles."""
    place, queue, waiting = np.full(n, -1), np.empty(n, np.int64), np.zeros(n, np.int64)
    for head in heads:
        waiting[head] += 1
    end = 0
    for node in range(n):
        if waiting[node] == 0:
            queue[end] = node
            end += 1
    begin = 0
    while begin < end:
        node = queue[begin]
        place[node] = begin
        begin += 1
        for e in range(first_out[node], first_out[node + 1]):
            waiting[heads[e]] -= 1
            if waiting[heads[e]] == 0:
                queue[end] = heads[e]
                end += 1
    return place


@njit(cache=True, nogil=True)
def longest_paths(first_out: IntArray, heads: IntArray, n: int) -> IntArray:
    """(n,) edges of the longest path to each node; edges lead to higher numbers."""
    depth = np.zeros(n, np.int64)
    for node in range(n):
        for e in range(first_out[node], first_out[node + 1]):
            depth[heads[e]] = max(depth[heads[e]], depth[node] + 1)
    return depth


@njit(cache=True, nogil=True)
def join_neighbours(
    graph: Graph,
    order: IntArray,
    kind: IntArray,
    held: FloatArray,
    ms: FloatArray,
    most_bytes: float,
    most_ms: float,
) -> IntArray:
    """Join each node to a neighbour's cluster by the rule of dagP.

    Args:
        graph: Edges and depths.
        order: (n,) the order in which nodes are visited.
        kind: (n,) nodes of different kinds are not joined.
        held: (n,) bytes of each.
        ms: (n,) mean time of each.
        most_bytes: Maximum bytes of a cluster.
        most_ms: Maximum time of a cluster.

    Returns:
        (n,) one member of each node's cluster.
    """
    n, depth = len(order), graph.depth
    leader, size = np.arange(n), np.ones(n, np.int64)
    low, high = depth.copy(), depth.copy()
    bytes_of, ms_of = held.copy(), ms.copy()
    near = np.full(n, NONE)  # the cluster of several members that is one level away
    for u in order:
        if size[leader[u]] > 1 or near[u] == SEVERAL:
            continue
        best, best_rate = NONE, 0.0
        for e in range(graph.first[u], graph.first[u + 1]):
            v = graph.neighbours[e]
            c = leader[v]
            if near[u] != NONE and c != near[u]:
                continue
            if size[c] == 1 and near[v] != NONE:
                continue
            if max(high[c], depth[u]) - min(low[c], depth[u]) > 1 or kind[c] != kind[u]:
                continue
            if bytes_of[c] + held[u] > most_bytes or ms_of[c] + ms[u] > most_ms:
                continue
            rate = (graph.saved[e] + NOTHING_MS) / (ms_of[c] + ms[u] + NOTHING_MS)
            if rate > best_rate:
                best, best_rate = c, rate
        if best == NONE:
            continue
        leader[u] = best
        low[best], high[best] = min(low[best], depth[u]), max(high[best], depth[u])
        bytes_of[best] += held[u]
        ms_of[best] += ms[u]
        size[best] += 1
        surround(graph, u, best, near)
        if size[best] == 2:
            surround(graph, best, best, near)
    return leader


@njit(cache=True, nogil=True)
def surround(graph: Graph, node: int, cluster: int, near: IntArray) -> None:
    """Record a cluster's new member at the neighbours that are one level away."""
    for e in range(graph.first[node], graph.first[node + 1]):
        v = graph.neighbours[e]
        if abs(graph.depth[v] - graph.depth[node]) == 1 and near[v] != cluster:
            near[v] = cluster if near[v] == NONE else SEVERAL


@njit(cache=True, nogil=True)
def pair_siblings(
    graph: Graph,
    order: IntArray,
    kind: IntArray,
    held: FloatArray,
    ms: FloatArray,
    most_bytes: float,
    most_ms: float,
) -> IntArray:
    """Pair nodes of equal depth that share a neighbour; arguments as for ``join_neighbours``."""
    n = len(order)
    leader, alone = np.arange(n), np.ones(n, np.bool_)
    score = np.zeros(n)
    found = np.empty(n, np.int64)
    for u in order:
        if not alone[u]:
            continue
        k = 0
        for e in range(graph.first[u], graph.first[u + 1]):
            middle = graph.neighbours[e]
            if graph.first[middle + 1] - graph.first[middle] > MOST_NEIGHBOURS:
                continue
            for f in range(graph.first[middle], graph.first[middle + 1]):
                v = graph.neighbours[f]
                if v == u or not alone[v] or graph.depth[v] != graph.depth[u]:
                    continue
                if kind[v] != kind[u] or held[v] + held[u] > most_bytes:
                    continue
                if ms[v] + ms[u] > most_ms:
                    continue
                if score[v] == 0.0:
                    found[k] = v
                    k += 1
                score[v] += min(graph.saved[e], graph.saved[f]) + NOTHING_MS
        best, best_rate = NONE, 0.0
        for i in range(k):
            v = found[i]
            rate = score[v] / (ms[u] + ms[v] + NOTHING_MS)
            if rate > best_rate:
                best, best_rate = v, rate
            score[v] = 0.0
        if best != NONE:
            leader[u] = best
            alone[u] = alone[best] = False
    return leader
