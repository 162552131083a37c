"""Clusters of linked units of every size: pairs of units, pairs of these, and so on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt32, kernel
from placement_gym.schedules import uint32

FEWEST = 4
"""Least number of clusters on a level."""


LEAST_MERGED = 0.05
"""Share of clusters that a level has to merge; the levels end where it would merge fewer."""


class Clusters(NamedTuple):
    """A tree of clusters, and an order of units in which each of them is contiguous."""

    order: UInt32  # (n_units,) units
    begin: UInt32  # (n_levels, n_units) where the cluster of each unit begins in ``order``
    end: UInt32  # (n_levels, n_units) the position after its end


def make_clusters(first: UInt32, link: UInt32, link_ms: FloatArray, ms: FloatArray) -> Clusters:
    """Merge clusters in pairs, level after level: those with long transfers for their own times.

    Args:
        first: (n_units + 1,) where each unit's links begin.
        link: (n_links,) the unit at the other end; every link is listed at both ends.
        link_ms: (n_links,) time of the transfer.
        ms: (n_units,) time of each unit, which keeps clusters of a level alike.
    """
    n_units = len(ms)
    cluster, levels = np.arange(n_units), [np.arange(n_units)]
    own, other = np.repeat(cluster, np.diff(first)), link.astype(np.int64)
    while True:
        # a link counts for more where it is long for the times at its ends; without the mean, units
        # that cost nothing would all join one cluster
        heavy = ms + ms.mean() + 1e-100
        begins = np.searchsorted(own, np.arange(len(ms) + 1))
        merged = match(begins, other, link_ms / np.sqrt(heavy[own] * heavy[other]))
        # a level that merges hardly anything, or leaves too few clusters, would be no other move
        n_now = int(merged.max()) + 1
        if n_now > (1.0 - LEAST_MERGED) * len(ms) or n_now < FEWEST:
            break
        # the merged clusters are the nodes of the next level
        cluster, ms = merged[cluster], np.bincount(merged, weights=ms).astype(np.float64)
        levels.append(cluster)
        # links within a cluster end, and parallel ones are one
        pairs, which = np.unique(merged[own] * n_now + merged[other], return_inverse=True)
        own, other = np.divmod(pairs, n_now)
        link_ms = np.bincount(which, weights=link_ms).astype(np.float64)
        apart = own != other
        own, other, link_ms = own[apart], other[apart], link_ms[apart]
    order = np.lexsort(levels)
    bounds = [find_bounds(cluster, order) for cluster in levels[1:]]
    begin, end = np.array(bounds).reshape(-1, 2, n_units).swapaxes(0, 1)
    return Clusters(uint32(order), uint32(begin), uint32(end))


def find_bounds(cluster: IntArray, order: IntArray) -> tuple[IntArray, IntArray]:
    """Find where each unit's cluster begins and ends in an order that has them in one piece."""
    sizes, position = np.bincount(cluster), np.argsort(order)
    begin = np.full(len(sizes), len(order))
    np.minimum.at(begin, cluster, position)
    return begin[cluster], (begin + sizes)[cluster]


@kernel
def match(first: IntArray, other: IntArray, score: FloatArray) -> IntArray:
    """(n,) number of the pair of each node, or of the node that found no partner.

    Each node in turn takes the free neighbour of the highest score.
    """
    n = len(first) - 1
    pair = np.full(n, -1, np.int64)
    n_pairs = 0
    for u in range(n):
        # a node that an earlier one has taken is in a pair already
        if pair[u] >= 0:
            continue
        partner, highest = -1, 0.0
        for k in range(first[u], first[u + 1]):
            if pair[other[k]] < 0 and other[k] != u and score[k] > highest:
                partner, highest = other[k], score[k]
        pair[u] = n_pairs
        if partner >= 0:
            pair[partner] = n_pairs
        n_pairs += 1
    return pair
