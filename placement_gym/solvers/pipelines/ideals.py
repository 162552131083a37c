"""Ideals: sets of nodes that contain all predecessors of their nodes.

Each ideal is found once: from the ideal without its last node in a topological order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import BoolArray, Int32, IntArray, UserError, compile_once
from placement_gym.solvers.pipelines.forward import Forward

MAX_BYTES = 2 * 2**30
"""Maximum memory of the dynamic programme."""
MAX_IDEALS = 60_000
"""The publication's maximum: two billion pairs, minutes if none is left out."""


class TooManyIdealsError(UserError):
    """The graph is too wide for the exact dynamic programme."""


@dataclass(frozen=True, eq=False)
class Ideals:
    """Ideals, smaller ones first; the first is empty, the last holds all nodes."""

    order: IntArray  # (n,) nodes of the graph in the topological order in which ideals number them
    # (n_ideals, n_words) uint64, the nodes as bits; none where each contains the last
    words: NDArray[np.uint64]
    smaller: Int32  # (n_ideals,) int32, the ideal without its last node
    last: Int32  # (n_ideals,) int32, position of the last node; -1 in the empty ideal
    offsets: IntArray  # (n + 2,) first ideal of each size

    def __len__(self) -> int:
        return len(self.last)

    def nodes(self, ideal: int) -> BoolArray:
        """(n,) whether each node of the graph is in the ideal."""
        inside = np.zeros(len(self.order), dtype=np.bool_)
        while ideal:
            inside[self.order[self.last[ideal]]] = True
            ideal = self.smaller[ideal]
        return inside


def enumerate_prefixes(order: IntArray) -> Ideals:
    """The prefixes of one topological order, which contain each other."""
    numbers = np.arange(-1, len(order), dtype=np.int32)
    return Ideals(
        order=order,
        words=np.empty((len(numbers), 0), dtype=np.uint64),
        smaller=np.maximum(numbers, 0),
        last=numbers,
        offsets=np.arange(len(order) + 2),
    )


def enumerate_ideals(forward: Forward, max_ideals: int = MAX_IDEALS) -> Ideals:
    """All ideals of a graph.

    Raises:
        TooManyIdealsError: There are more than ``max_ideals``, or than ``MAX_BYTES`` hold.
    """
    order = forward.depth_first()
    source, target = np.argsort(order)[forward.edge_index]
    begin = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=len(order)))])
    most = min(max_ideals, MAX_BYTES // (len(order) // 8 + 16))
    if len(order) < most:
        words, smaller, last, offsets = grow_ideals(begin, source[np.argsort(target)], most)
        if offsets[-1]:
            return Ideals(order, words, smaller, last, offsets)
    raise TooManyIdealsError(
        f"the graph has more than {most} ideals: use the linear pipeline (dpl)"
    )


@compile_once(nogil=True)
def grow_ideals(
    begin: IntArray, needs: IntArray, max_ideals: int
) -> tuple[NDArray[np.uint64], Int32, Int32, IntArray]:
    """Add to each ideal every node behind its last one whose predecessors it contains.

    These are in ``needs`` from (n + 1,) ``begin`` on. Returns ``words``, ``smaller``, ``last`` and
    ``offsets`` of ``Ideals``; the last offset is zero if there are more than ``max_ideals``.
    """
    n = len(begin) - 1
    words = np.zeros((max_ideals, (n + 63) // 64), np.uint64)
    smaller, last = np.zeros((2, max_ideals), np.int32)
    last[0] = -1
    offsets = np.zeros(n + 2, np.int64)
    offsets[1] = count = 1
    # Adding only nodes behind the last one finds each ideal once, in the order of sizes.
    for size in range(n):
        for ideal in range(offsets[size], offsets[size + 1]):
            for node in range(last[ideal] + 1, n):
                if not contains(words, ideal, needs, begin[node], begin[node + 1]):
                    continue
                if count == max_ideals:
                    return words, smaller, last, offsets
                words[count] = words[ideal]
                words[count, node // 64] |= np.uint64(1) << np.uint64(node % 64)
                smaller[count], last[count] = ideal, node
                count += 1
        offsets[size + 2] = count
    return words[:count].copy(), smaller[:count].copy(), last[:count].copy(), offsets


@compile_once(nogil=True)
def contains(words: NDArray[np.uint64], ideal: int, nodes: IntArray, first: int, stop: int) -> bool:
    """Return whether an ideal has all of some nodes."""
    for place in range(first, stop):
        node = nodes[place]
        if not words[ideal, node // 64] >> np.uint64(node % 64) & np.uint64(1):
            return False
    return True
