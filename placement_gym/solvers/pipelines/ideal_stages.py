"""Costs of the difference of two ideals on each kind of device: one stage of a pipeline.

A stage pays for a tensor if it holds a part of its touch set: some nodes, but not all. So of an
ideal only the *border* matters: the tensors of whose touch set it holds a part. Between two ideals,
the stage pays for all tensors of both borders, once if both have it, and not if both hold the same
part. That includes tensors of a backward pass. Tensors of equal touch sets count as one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import FloatArray, Int32, IntArray, UserError, compile_once
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers.pipelines.forward import Forward, find_endpoint_times
from placement_gym.solvers.pipelines.ideals import MAX_BYTES, Ideals

FULL_WORD = np.uint64(2**64 - 1)
"""A word of an ideal that contains all of its 64 units."""
ADDED: int = 0
BY_CUT: int = 1
"""A device's transfers are added to its work, or overlap with it and with those at the other end of
its stage."""


class PipelineMemoryError(UserError):
    """The dynamic programme would need too much memory."""

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"the pipeline's dynamic programme needs more than {MAX_BYTES / 2**30:.0f} GiB "
            f"({cause}): use the linear pipeline (dpl), or fewer kinds of devices"
        )


class StageCosts(NamedTuple):
    """Arrays with the costs of the difference of two ideals, for each kind of device."""

    words: NDArray[np.uint64]  # (n_ideals, n_words) uint64, see ``Ideals``
    solid: IntArray  # (n_ideals,) number of leading words that are full
    extent: IntArray  # (n_ideals,) number of words up to the last that is not empty
    work_ms: FloatArray  # (n_ideals, n_kinds) time of all its units
    refused: IntArray  # (n_ideals, n_kinds) number of its units that the kind does not support
    ideal_bytes: FloatArray  # (n_ideals,) bytes of its units
    limit: FloatArray  # (n_kinds,) bytes that fit
    border_ms: FloatArray  # (n_ideals, n_kinds) time for all tensors of the border
    begin: IntArray  # (n_ideals + 1,) where each ideal's border begins in the next two
    tensor: Int32  # (n_entries,) int32, tensors of borders
    part: Int32  # (n_entries,) int32, size of the part of the touch set in the ideal
    boundary_ms: FloatArray  # (n_tensors, n_kinds) time when the tensor leaves or enters the device
    stage_ms: FloatArray  # (n_kinds,) cost of a stage on top of its units and tensors
    transfers: int  # ``ADDED`` or ``BY_CUT``


def compute_stages(
    problem: Problem,
    costs: CostTable,
    forward: Forward,
    ideals: Ideals,
    devices: list[int],
    unit_bytes: FloatArray,
    max_entries: int,
    most_ms: float = np.inf,
    transfers: int = ADDED,
) -> StageCosts:
    """Compute the costs of stages between ideals of a forward graph.

    ``devices`` is one of each kind, ``unit_bytes`` is (n_units,). A unit that takes longer than
    ``most_ms`` is refused, and no border takes more than twice this.

    Raises:
        PipelineMemoryError: All borders are longer than ``max_entries``.
    """
    position = np.argsort(ideals.order)[forward.node]
    # Units slower than any acceptable load are refused and count no work: sums of very large times
    # would lose the digits of small ones.
    work = costs.unit_ms(problem.units)[:, devices]
    refused = (~problem.supported[:, devices] | (work > most_ms)).astype(np.float64)
    # Touch sets, numbered as tensors: which of them each node is in, and how many nodes they have.
    total = find_endpoint_times(problem, costs, position)
    pairs = np.array([(v, t) for t, nodes in enumerate(total) for v in nodes], dtype=np.int64)
    pairs = pairs.reshape(-1, 2)
    node, touched = pairs[np.lexsort(pairs.T[::-1])].T
    first = np.searchsorted(node, np.arange(len(forward) + 1))
    size = np.array([len(nodes) for nodes in total], dtype=np.int64)
    boundary_ms = np.array([ms[devices] for ms in total.values()]).reshape(-1, len(devices))
    boundary_ms = np.minimum(boundary_ms, 2.0 * most_ms)
    begin, tensor, part = follow_borders(
        first, touched.copy(), size, ideals.smaller, ideals.last, max_entries
    )
    if begin[-1] > len(tensor):
        raise PipelineMemoryError(f"more than {max_entries} tensors on the borders of ideals")
    return StageCosts(
        words=ideals.words,
        solid=np.logical_and.accumulate(ideals.words == FULL_WORD, axis=1).sum(axis=1),
        extent=np.minimum(ideals.last // 64 + 1, ideals.words.shape[1]).astype(np.int64),
        work_ms=sum_units(np.where(work > most_ms, 0.0, work), forward, ideals),
        refused=sum_units(refused, forward, ideals).astype(np.int64),
        ideal_bytes=sum_units(unit_bytes[:, None], forward, ideals)[:, 0].copy(),
        limit=problem.limits_bytes[devices],
        border_ms=sum_borders(begin, tensor, boundary_ms),
        begin=begin,
        tensor=tensor,
        part=part,
        boundary_ms=boundary_ms,
        stage_ms=np.ascontiguousarray(costs.submodel_ms[devices], dtype=np.float64),
        transfers=transfers,
    )


def sum_units(values: FloatArray, forward: Forward, ideals: Ideals) -> FloatArray:
    """Sum (n_units, n_columns) values over the units of each ideal: (n_ideals, n_columns)."""
    of_node = np.zeros((len(forward), values.shape[1]))
    np.add.at(of_node, np.argsort(ideals.order)[forward.node], values)
    return accumulate(of_node, ideals.smaller, ideals.last)


@compile_once(nogil=True)
def accumulate(of_node: FloatArray, smaller: Int32, last: Int32) -> FloatArray:
    """Sum (n, n_columns) values of nodes over each ideal: (n_ideals, n_columns)."""
    total = np.zeros((len(last), of_node.shape[1]))
    for i in range(1, len(last)):
        total[i] = total[smaller[i]] + of_node[last[i]]
    return total


@compile_once(nogil=True)
def sum_borders(begin: IntArray, tensor: Int32, boundary_ms: FloatArray) -> FloatArray:
    """Sum times over each border: (n_ideals, n_kinds)."""
    total = np.zeros((len(begin) - 1, boundary_ms.shape[1]))
    for i in range(len(total)):
        for entry in range(begin[i], begin[i + 1]):
            total[i] += boundary_ms[tensor[entry]]
    return total


@compile_once(nogil=True)
def follow_borders(
    first: IntArray,
    touched: IntArray,
    size: IntArray,
    smaller: Int32,
    last: Int32,
    max_entries: int,
) -> tuple[IntArray, Int32, Int32]:
    """Compute ``begin``, ``tensor`` and ``part`` of ``StageCosts``, tensors ascending in a border.

    The tensors that a node touches are in ``touched`` from (n + 1,) ``first`` on; (n_tensors,)
    ``size`` nodes touch each. Beyond ``max_entries`` the last two results are empty and the last
    value of the first is not.
    """
    n_ideals = len(last)
    begin = np.zeros(n_ideals + 1, np.int64)
    room = 1024
    tensor, part = np.empty(room, np.int32), np.empty(room, np.int32)
    # An ideal's border is that of the next smaller one, merged with the tensors of its last node.
    for i in range(1, n_ideals):
        entry, stop = begin[smaller[i]], begin[smaller[i] + 1]
        touch, end = first[last[i]], first[last[i] + 1]
        at = begin[i]
        if at + (stop - entry) + (end - touch) > room:
            room += at + (end - touch)
            if room > max_entries:
                begin[-1] = room
                return begin, tensor[:0], part[:0]
            more = np.empty(room - len(tensor), np.int32)
            tensor, part = np.concatenate((tensor, more)), np.concatenate((part, more))
        while entry < stop or touch < end:
            if touch == end or (entry < stop and tensor[entry] < touched[touch]):
                tensor[at], part[at] = tensor[entry], part[entry]
                entry += 1
            else:
                tensor[at], part[at] = touched[touch], 1
                if entry < stop and tensor[entry] == touched[touch]:
                    part[at] += part[entry]
                    entry += 1
                touch += 1
            # A complete touch set leaves the border: its entry is overwritten.
            at += part[at] < size[tensor[at]]
        begin[i + 1] = at
    return begin, tensor[: begin[-1]].copy(), part[: begin[-1]].copy()
