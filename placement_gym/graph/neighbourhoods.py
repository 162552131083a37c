"""Sizes of neighbourhoods."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.base.kernels import kernel


@kernel
def count_within_distance(
    first: IntArray, neighbours: IntArray, radius: int, limit: int
) -> IntArray:
    """(n, radius) number of nodes within distance 1, 2, ... of each node, itself included.

    A ball is counted until it holds ``limit`` nodes; larger radii then repeat its size, so that the
    work is linear in the number of nodes for any graph.

    Args:
        first: (n + 1,) where each node's neighbours begin.
        neighbours: (2 * n_edges,) of the undirected graph.
        radius: Maximum distance.
        limit: Maximum size of a ball.
    """
    n = len(first) - 1
    sizes = np.empty((n, radius), np.int64)
    seen_by = np.full(n, -1, np.int64)
    queue = np.empty(max(limit, 1), np.int64)
    # Marking by centre saves clearing the marks before each search.
    for centre in range(n):
        seen_by[centre] = centre
        queue[0] = centre
        begin, end = 0, 1
        for distance in range(radius):
            level_end = end
            while begin < level_end and end < limit:
                node = queue[begin]
                begin += 1
                for position in range(first[node], first[node + 1]):
                    # Larger radii would only find more nodes: their size is capped as well.
                    if end == limit:
                        break
                    other = neighbours[position]
                    if seen_by[other] != centre:
                        seen_by[other] = centre
                        queue[end] = other
                        end += 1
            sizes[centre, distance] = end
            if end == limit:
                for larger in range(distance, radius):
                    sizes[centre, larger] = end
                break
    return sizes
