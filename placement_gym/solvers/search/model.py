"""The search's view of a problem: operators in the order of a schedule, and units that move.

Clusters are linked units of every size: pairs of units, pairs of these, and so on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from placement_gym.base import BoolArray, FloatArray, Int32, IntArray, Struct, UInt8, UInt32, kernel
from placement_gym.problem import Problem
from placement_gym.schedules import Simulator, mean_transfers_ms, uint32
from placement_gym.solvers import longest_after_ms
from placement_gym.solvers.list_policy import is_exact

LIST, SERIAL, LOAD, SIMULATED = range(4)
"""Estimates of a placement: by a list schedule, a sum or loads, which are updated for every move,
or by the simulator."""
BLOCK = 32
"""Operators between two positions from which a list schedule can continue."""
FEWEST = 4
"""Minimum number of clusters on a level."""
LEAST_MERGED = 0.05
"""Minimum share of clusters that a level merges; the levels end below it."""


class Model(Struct):
    """Operators by position: in the order of a list schedule, or topological."""

    kind: int  # ``LIST``, ``SERIAL``, ``LOAD`` or ``SIMULATED``
    overlaps: bool  # whether devices work at the same time, and a latency is asked for
    unit: UInt32  # (n,) uint32 unit of each operator
    ms: FloatArray  # (n, n_devices) times
    mean_ms: float  # their mean
    first: UInt32  # (n + 1,) where each operator's readings begin
    maker: UInt32  # (n_readings,) the operator that makes the tensor
    tensor: UInt32  # (n_readings,)
    first_made: UInt32  # (n + 1,) where each operator's tensors begin
    source: UInt32  # (n_tensors,) the operator that makes each tensor
    first_reader: UInt32  # (n_tensors + 1,) where each tensor's readers begin
    reader: UInt32  # (n_readings,) operators
    transfer_ms: FloatArray  # (n_tensors, n_devices, n_devices)
    boundary_ms: FloatArray  # (n_tensors, n_devices)
    last_reader: UInt32  # (n,) the last operator that reads one of an operator's tensors; 0 if none
    tail_ms: FloatArray  # (n,) least time from an operator's finish to the end of the model
    gap_ms: float  # idle time of a device after an operator

    @classmethod
    def from_simulator(cls, simulator: Simulator, kind: int | None = None) -> Model:
        """Make the model of a simulator; ``kind`` is by default the exact one."""
        program, schedule = simulator.program, simulator.semantics.schedule
        if kind is None:
            exact = {"serial": SERIAL, "load": LOAD, "list": LIST}
            kind = exact[schedule] if is_exact(simulator) else SIMULATED
        n, listed = len(program.unit), schedule == "list"
        order = simulator.sequence.astype(np.int64) if listed else np.arange(n)
        position = np.argsort(order)
        # tensors by their makers, and readings by tensor
        tensors = np.argsort(position[program.source], kind="stable")
        source, counts = position[program.source][tensors], np.diff(program.first_reader)
        moved = np.argsort(
            np.argsort(tensors)[np.repeat(np.arange(len(counts)), counts)], kind="stable"
        )
        reader, counts = position[program.readers][moved], counts[tensors]
        tensor = np.repeat(np.arange(len(counts)), counts)
        # the same readings by reader
        by_reader = np.argsort(reader, kind="stable")
        ms = np.ascontiguousarray(program.ms[order])
        # added up one by one: NumPy's sums differ between processors
        mean_ms = sum(ms.ravel().tolist()) / max(ms.size, 1)
        first = np.searchsorted(reader[by_reader], np.arange(n + 1))
        maker = source[tensor[by_reader]]
        last_reader = np.zeros(n, np.int64)
        np.maximum.at(last_reader, source[tensor], reader)
        return cls(
            kind=kind,
            overlaps=schedule in ("list", "event", "calls"),
            unit=uint32(program.unit[order]),
            ms=ms,
            mean_ms=mean_ms,
            first=uint32(first),
            maker=uint32(maker),
            tensor=uint32(tensor[by_reader]),
            first_made=uint32(np.searchsorted(source, np.arange(n + 1))),
            source=uint32(source),
            first_reader=uint32(np.concatenate([[0], np.cumsum(counts)])),
            reader=uint32(reader),
            transfer_ms=program.transfer_ms[tensors],
            boundary_ms=program.boundary_ms[tensors],
            last_reader=uint32(last_reader),
            tail_ms=longest_after_ms(ms.min(axis=1), maker, reader[by_reader]),
            gap_ms=simulator.gaps_ms[0],
        )


class Layout(Struct):
    """Links between units, the devices where they may be, and limits."""

    first_op: UInt32  # (n_units + 1,) where each unit's operators begin
    ops: UInt32  # (n,) positions of operators by unit, ascending
    order: UInt32  # (n_units,) units by their first operator
    rank: UInt32  # (n_units,) position of each unit in ``order``
    first_link: UInt32  # (n_units + 1,) where each unit's links begin
    link: UInt32  # (n_links,) the unit at the other end
    link_ms: FloatArray  # (n_links,) mean time of the transfer, shared by its readers
    unit_ms: FloatArray  # (n_units, n_devices) times
    possible: BoolArray  # (n_units, n_devices) bool
    size: FloatArray  # (n_units,) bytes
    # (n_groups, n_devices) float64, 1 for devices whose units count against each limit
    member: FloatArray
    limit: FloatArray  # (n_groups,) bytes
    gain: float  # typical ms that a byte saves on the right device, the scale of its price
    nested: UInt32  # (n_units,) units in an order in which every cluster is contiguous
    first_nested: UInt32  # (n_levels, n_units) where the cluster of each unit begins in ``nested``
    last_nested: UInt32  # (n_levels, n_units) the position after its end

    @classmethod
    def from_problem(cls, problem: Problem, model: Model, limited: bool) -> Layout:
        """Make the layout of a problem, with memory limits or without."""
        n_units, n_devices = problem.supported.shape
        # operators of units, and units by their first operator
        ops = np.argsort(model.unit, kind="stable")
        first_op = np.searchsorted(model.unit[ops], np.arange(n_units + 1))
        order = np.argsort(ops[first_op[:-1]], kind="stable")
        # links: readings between units, listed at both ends, at mean times
        reader = np.repeat(np.arange(len(model.unit)), np.diff(model.first))
        ends = np.stack([model.unit[model.maker], model.unit[reader]]).astype(np.int64)
        apart = ends[0] != ends[1]
        own, other = np.concatenate([ends[:, apart], ends[::-1, apart]], axis=1)
        moved_ms = mean_transfers_ms(model.transfer_ms)
        shared_ms = (moved_ms / np.diff(model.first_reader))[model.tensor][apart]
        by_own = np.argsort(own, kind="stable")
        first_link = uint32(np.searchsorted(own[by_own], np.arange(n_units + 1)))
        link, link_ms = uint32(other[by_own]), np.concatenate([shared_ms, shared_ms])[by_own]
        unit_ms = np.zeros((n_units, n_devices))
        np.add.at(unit_ms, model.unit, model.ms)
        # limits that count
        limits, size = problem.memory.limits_bytes, problem.unit_bytes
        tight = np.flatnonzero(np.isfinite(limits) & limited)
        nested, begin, end = make_clusters(first_link, link, link_ms, unit_ms.min(axis=1))
        return cls(
            first_op=uint32(first_op),
            ops=uint32(ops),
            order=uint32(order),
            rank=uint32(np.argsort(order)),
            first_link=first_link,
            link=link,
            link_ms=link_ms,
            unit_ms=unit_ms,
            possible=np.ascontiguousarray(problem.possible if limited else problem.supported),
            size=size,
            member=(problem.memory.of_device == tight[:, None]).astype(np.float64),
            limit=limits[tight],
            gain=float(np.ptp(unit_ms, axis=1).sum() / max(size.sum(), 1.0)),
            nested=nested,
            first_nested=begin,
            last_nested=end,
        )


def make_clusters(
    first: UInt32, link: UInt32, link_ms: FloatArray, ms: FloatArray
) -> tuple[UInt32, UInt32, UInt32]:
    """Merge clusters in pairs, level after level: those with long transfers for their own times.

    Returns ``nested``, ``first_nested`` and ``last_nested`` of ``Layout``, whose links these are.
    (n_units,) times ``ms`` keep clusters of a level alike.
    """
    n_units = len(ms)
    cluster, levels = np.arange(n_units), [np.arange(n_units)]
    own, other = np.repeat(cluster, np.diff(first)), link.astype(np.int64)
    while True:
        # a link counts relative to the times at its ends; without the mean, units that cost nothing
        # would all join one cluster
        heavy = ms + ms.mean() + 1e-100
        begins = np.searchsorted(own, np.arange(len(ms) + 1))
        merged = match(begins, other, link_ms / np.sqrt(heavy[own] * heavy[other]))
        # a level that merges little, or leaves too few clusters, would add no move
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
    # where each unit's cluster begins and ends in an order that keeps clusters contiguous
    bounds, position = [], np.argsort(order)
    for cluster in levels[1:]:
        sizes = np.bincount(cluster)
        begin = np.full(len(sizes), n_units)
        np.minimum.at(begin, cluster, position)
        bounds.append((begin[cluster], (begin + sizes)[cluster]))
    begin, end = np.array(bounds).reshape(-1, 2, n_units).swapaxes(0, 1)
    return uint32(order), uint32(begin), uint32(end)


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


NUMBERS = ("now_ms", "best_ms", "price", "over_bytes", "penalty_ms", "rounding_ms", "line")
COUNTS = ("n_moves", "n_critical", "n_updates")
SCALARS = np.dtype([(name, np.float64) for name in NUMBERS] + [(name, np.int64) for name in COUNTS])
"""Numbers of a state that change: costs of the placement and the best one; the price of memory as a
multiple of ``Layout.gain``; bytes above limits, and the penalty of each in ms; possible rounding of
the loads; the line of the chain (see ``Elite``); moves proposed, units in ``critical``, and updates
of the loads."""


class State(Struct):
    """A placement in the course of a search, and the parts of its estimate."""

    place: UInt8  # (n_units,) uint8 device of each unit
    on: UInt8  # (n,) uint8 device of each operator
    used: FloatArray  # (n_groups,) bytes that count against each limit
    moved: Int32  # (n_units,) int32 units of the proposed move
    was: UInt8  # (n_units,) uint8 devices that they left
    marked: Int32  # (n_units,) int32 the last move that each unit took part in
    finish: FloatArray  # (n,) of a list schedule, in ms
    kept: FloatArray  # (n,) the same before the proposed move
    # (n_blocks + 1, n_devices) when devices are free before each block of operators, and at the
    # end, in ms
    free: FloatArray
    kept_free: FloatArray  # (n_blocks + 1, n_devices) the same before the proposed move
    # (n + 1,) longest time from an operator's start to the end, before the proposed move; the last
    # one is 0
    tail: FloatArray
    # (n_blocks + 1, n_devices) int32 the first operator of each device from each block on, before
    # the proposed move; n if there is none
    after: Int32
    device_free: FloatArray  # (n_devices,) ms, while operators are scheduled
    follower: Int32  # (n_devices,) int32, while tails are measured
    changed: BoolArray  # (n_devices,) bool, while tails are measured
    taste: FloatArray  # (n_devices,) ms, while units are placed again
    # (n_devices,) ms; in a serial schedule, times and transfers by their first device
    load: FloatArray
    stamp: Int32  # (n_tensors,) int32 the last update of the loads that each tensor took part in
    critical: Int32  # (n_units,) int32 units of longest chains of a list schedule
    best: UInt8  # (n_units,) uint8 the cheapest placement so far
    scalars: Any  # a record of ``SCALARS``


def make_state(model: Model, layout: Layout, place: IntArray | UInt8, price: float = 0.0) -> State:
    """A state at an (n_units,) placement, not estimated yet."""
    (n, n_devices), n_units = model.ms.shape, len(layout.size)
    ends = n // BLOCK + 2
    scalars = np.zeros(1, SCALARS).view(np.recarray)[0]
    scalars.now_ms = scalars.best_ms = np.inf
    scalars.price, scalars.penalty_ms = price, 2.0 * layout.gain
    return State(
        place=np.ascontiguousarray(place, dtype=np.uint8).copy(),
        on=np.asarray(place, dtype=np.uint8)[model.unit],
        used=(layout.member[:, place] * layout.size).sum(axis=1),
        moved=np.empty(n_units, np.int32),
        was=np.empty(n_units, np.uint8),
        marked=np.full(n_units, -1, np.int32),
        finish=np.zeros(n),
        kept=np.zeros(n),
        free=np.zeros((ends, n_devices)),
        kept_free=np.zeros((ends, n_devices)),
        tail=np.zeros(n + 1),
        after=np.full((ends, n_devices), n, np.int32),
        device_free=np.zeros(n_devices),
        follower=np.zeros(n_devices, np.int32),
        changed=np.zeros(n_devices, np.bool_),
        taste=np.zeros(n_devices),
        load=np.zeros(n_devices),
        stamp=np.full(len(model.source), -1, np.int32),
        critical=np.empty(n_units, np.int32),
        best=np.ascontiguousarray(place, dtype=np.uint8).copy(),
        scalars=scalars,
    )
