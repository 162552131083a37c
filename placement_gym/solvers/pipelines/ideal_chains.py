"""The best chain of ideals: numba kernels of the pipeline's dynamic programme.

``best[i, s]`` is the smallest maximum load of a chain from the empty ideal to i whose stages use
exactly the devices of state s. Each ideal needs all smaller ones and none of its own size. Only
chains below a cut-off are searched for, which excludes most pairs of ideals:

- State s is not open if the work that i leaves exceeds what the other devices can do below the
  cut-off.
- A stage is skipped before nesting is tested if its work alone is not below the best load of i, and
  before crossing tensors are added up if its work and difference of borders is not.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import FloatArray, Int32, IntArray, compile_once
from placement_gym.solvers.pipelines.ideal_stages import ADDED, BY_CUT, StageCosts

STATE, KIND = 0, 1
"""Columns of the moves that ``open_moves`` lists."""


class ChainLimits(NamedTuple):
    """Limits of chains: what they may use, and what they must leave."""

    used: IntArray  # (n_states, n_kinds) number of devices of each kind in use
    stride: IntArray  # (n_kinds,) distance to the state with one device of the kind less
    left: FloatArray  # (n_ideals,) priced work of the units outside of each ideal
    # (n_states,) how much of it the devices that are not in use do below the cut-off
    room: FloatArray
    cutoff_ms: float  # only chains of a smaller maximum load are looked for


class ChainTable(NamedTuple):
    """The table of the dynamic programme; at first only the empty chain is known."""

    # (n_ideals, n_states) smallest maximum load in ms; infinite where none is known
    best: FloatArray
    # (n_ideals, n_states) int32: the ideal before times ``n_kinds``, plus the kind of the last
    # stage's device; -1 where none is known
    link: Int32
    lowest: FloatArray  # (n_ideals,) minimum of each row of ``best``


def find_chains(stages: StageCosts, plan: ChainLimits, offsets: IntArray) -> ChainTable:
    """Fill the table of chains; (n + 2,) offsets are the first ideal of each size.

    An interrupt takes effect between two sizes.
    """
    (n_ideals, n_kinds), shape = stages.work_ms.shape, (len(stages.work_ms), len(plan.room))
    best, lowest = np.full(shape, np.inf), np.full(n_ideals, np.inf)
    best[0, 0] = lowest[0] = 0.0
    chains = ChainTable(best, np.full(shape, -1, dtype=np.int32), lowest)
    reached, heaviest_ms = np.zeros(n_ideals, np.int32), np.zeros((n_ideals, n_kinds))
    n_reached = 1  # the empty ideal
    for first, stop in pairwise(offsets[1:].tolist()):
        n_reached = extend_chains(
            stages, plan, chains, reached, heaviest_ms, n_reached, first, stop
        )
    return chains


@compile_once(nogil=True)
def extend_chains(
    stages: StageCosts,
    plan: ChainLimits,
    chains: ChainTable,
    reached: Int32,
    heaviest_ms: FloatArray,
    n_reached: int,
    first: int,
    stop: int,
) -> int:
    """Fill the rows of ideals from ``first`` up to ``stop``, all of one size.

    The first ``n_reached`` of (n_ideals,) int32 ``reached`` are the smaller ideals that a chain
    reaches, ascending; those of this size are added, and the new number is returned.
    ``heaviest_ms`` is (n_ideals, n_kinds), the largest work of any ideal up to each of them.
    """
    # Single arrays: references to a tuple of them would be counted at every inner call.
    words, solid, extent, work_ms, refused, ideal_bytes, limit = stages[:7]
    border_ms, begin, tensor, part, boundary_ms, stage_ms, transfers = stages[7:]
    best, link, lowest = chains
    here = np.zeros(len(boundary_ms), np.int32)
    load, moved_ms = np.empty((2, work_ms.shape[1]))
    for i in range(first, stop):
        moves = open_moves(plan, best, i)
        if not len(moves):
            continue
        # A stage heavier than the worst value of this row, which falls, gains nothing.
        highest = plan.cutoff_ms
        for entry in range(begin[i], begin[i + 1]):
            here[tensor[entry]] = part[entry]
        # the first place from which a stage may have less work than that
        lightest = n_reached
        for k in range(work_ms.shape[1]):
            heaviest, least = heaviest_ms[:n_reached, k], work_ms[i, k] - highest
            lightest = min(lightest, np.searchsorted(heaviest, least, side="right"))
        for place in range(n_reached - 1, lightest - 1, -1):
            j = reached[place]
            # Cheapest tests first: most pairs fail the first two; few are nested.
            if (
                lowest[j] < highest
                and subtract_work(load, work_ms, stage_ms, i, j) < highest
                and is_nested(words, solid, extent, i, j)
                and refuse(load, refused, ideal_bytes, limit, i, j)
                and add_borders(load, moved_ms, border_ms, transfers, i, j) < highest
            ):
                # Tensors on both borders were added twice: once is right if the two ideals hold
                # different parts of the touch set, none if the same. Cuts count them at either end.
                if transfers != BY_CUT:
                    for entry in range(begin[j], begin[j + 1]):
                        if here[tensor[entry]]:
                            both = 1 + (here[tensor[entry]] == part[entry])
                            for k in range(len(load)):
                                moved_ms[k] -= both * boundary_ms[tensor[entry], k]
                if append_stage(best, link, moves, plan, load, moved_ms, transfers, i, j):
                    highest = 0.0
                    for move in range(len(moves)):
                        highest = max(highest, best[i, moves[move, STATE]])
        # Unmarking visits the border, clearing `here` would visit all tensors.
        for entry in range(begin[i], begin[i + 1]):
            here[tensor[entry]] = 0
        # what was not reached is infinite
        for s in range(best.shape[1]):
            if link[i, s] < 0:
                best[i, s] = np.inf
            lowest[i] = min(lowest[i], best[i, s])
    for i in range(first, stop):
        if lowest[i] < np.inf:
            reached[n_reached] = i
            heaviest_ms[n_reached] = np.maximum(heaviest_ms[n_reached - 1], work_ms[i])
            n_reached += 1
    return n_reached


@compile_once(nogil=True)
def open_moves(plan: ChainLimits, best: FloatArray, i: int) -> IntArray:
    """(n_moves, 2) states, and kinds of last devices, that chains to ideal i may have.

    The row of ``best`` becomes the cut-off where a chain may continue.
    """
    moves = np.empty((plan.used.size, 2), np.int64)
    count = 0
    # Unused devices must be able to do the remaining work below the cut-off.
    for s in range(1, len(plan.used)):
        if plan.left[i] <= plan.room[s]:
            best[i, s] = plan.cutoff_ms
            for k in range(len(plan.stride)):
                if plan.used[s, k]:
                    moves[count] = s, k
                    count += 1
    return moves[:count]


@compile_once(nogil=True)
def subtract_work(
    load: FloatArray, work_ms: FloatArray, stage_ms: FloatArray, i: int, j: int
) -> float:
    """Set the loads of a stage to its work and own cost; return their minimum."""
    least = np.inf
    for k in range(len(load)):
        load[k] = work_ms[i, k] - work_ms[j, k] + stage_ms[k]
        least = min(least, load[k])
    return least


@compile_once(nogil=True)
def is_nested(words: NDArray[np.uint64], solid: IntArray, extent: IntArray, i: int, j: int) -> bool:
    """Return whether ideal i contains ideal j; words full in i or empty in j are skipped."""
    outside = np.uint64(0)
    for w in range(solid[i], extent[j]):
        outside |= words[j, w] & ~words[i, w]
    return outside == 0


@compile_once(nogil=True)
def refuse(
    load: FloatArray, refused: IntArray, ideal_bytes: FloatArray, limit: FloatArray, i: int, j: int
) -> bool:
    """Make loads infinite for kinds that cannot take the stage; return whether any kind can."""
    possible = False
    for k in range(len(load)):
        if refused[i, k] > refused[j, k] or ideal_bytes[i] - ideal_bytes[j] > limit[k]:
            load[k] = np.inf
        else:
            possible = True
    return possible


@compile_once(nogil=True)
def add_borders(
    load: FloatArray, moved_ms: FloatArray, border_ms: FloatArray, transfers: int, i: int, j: int
) -> float:
    """Set transfers to all tensors of both borders, or of the longer of two cuts.

    Returns the minimum load if tensors of one border were in the other.
    """
    least = np.inf
    for k in range(len(load)):
        least = min(least, together(load[k], abs(border_ms[i, k] - border_ms[j, k]), transfers))
        if transfers == BY_CUT:
            moved_ms[k] = max(border_ms[i, k], border_ms[j, k])
        else:
            moved_ms[k] = border_ms[i, k] + border_ms[j, k]
    return least


@compile_once(nogil=True)
def together(work_ms: float, moved_ms: float, transfers: int) -> float:
    """Time of work and transfers, one after the other or at the same time."""
    return work_ms + moved_ms if transfers == ADDED else max(work_ms, moved_ms)


@compile_once(nogil=True)
def append_stage(
    best: FloatArray,
    link: Int32,
    moves: IntArray,
    plan: ChainLimits,
    load: FloatArray,
    moved_ms: FloatArray,
    transfers: int,
    i: int,
    j: int,
) -> bool:
    """Append the stage from ideal j to i to the chains of j; return whether any improves."""
    improved, n_kinds = False, len(plan.stride)
    for move in range(len(moves)):
        s, k = moves[move, STATE], moves[move, KIND]
        before = best[j, s - plan.stride[k]]
        largest = max(before, together(load[k], moved_ms[k], transfers))
        if largest < best[i, s]:
            best[i, s] = largest
            link[i, s] = j * n_kinds + k
            improved = True
    return improved
