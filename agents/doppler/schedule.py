"""The task graph and partial schedules of it: the state that both policies read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.problem import Problem, find_fitting_devices
from placement_gym.problem.costs import CostTable
from placement_gym.schedules import mean_transfers_ms
from placement_gym.solvers import Tasks

NODE_FEATURES = (
    "time",
    "longest path to an end",
    "longest path from a beginning",
    "transfers of inputs",
    "transfers of outputs",
)
"""Columns of ``TaskGraph.x``: means over devices, standardised over nodes."""
DEVICE_FEATURES = (
    "load",
    "load of the inputs' makers there",
    "earliest start of the makers there",
    "latest end of the makers there",
    "earliest start of the node",
)
"""The published columns of a device."""
OWN_FEATURES = (
    "earliest finish of the node",
    "time of the node",
    "room left after the unit, over the limit",
    "whether the device has a limit",
)
"""Deviation: more columns, as devices may differ; the paper's are equal, without limits."""
NONE = -1
"""A node or a device that does not exist."""
MIN_VARIANCE = 1e-8
"""Added to a variance before its root. Hand-tuned: equal values become zeros."""


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """Arrays that stay the same in all episodes of one problem."""

    problem: Problem
    unit: IntArray  # (n,) unit of each node
    ms: FloatArray  # (n, D) times
    maker: IntArray  # (n, R) nodes whose outputs each node reads; ``NONE`` where there are fewer
    tensor: IntArray  # (n, R) tensors of these outputs
    transfer_ms: FloatArray  # (n_tensors, D, D) times
    readers: tuple[IntArray, ...]  # for each node, the nodes that read from it
    down: FloatArray  # (n,) longest path to an end at mean costs, the node included
    x: Tensor  # (n, 5) float32, ``NODE_FEATURES``
    edges: Tensor  # (2, e) makers and readers, and the same reversed
    edge_x: Tensor  # (e, 1) float32 mean transfers, standardised
    down_path: Tensor  # (n, n) sparse, 1 for the nodes on each node's longest path to an end
    up_path: Tensor  # (n, n) sparse, the same for the path from a beginning
    scale_ms: float  # mean time of a node

    @classmethod
    def from_problem(cls, problem: Problem, costs: CostTable) -> TaskGraph:
        """Make the graph of units, or of operators if units form cycles."""
        tasks = Tasks.in_topological_order(problem.units, costs)
        tensor, reader = tasks.tensors.readings()
        maker, (n, n_devices) = tasks.tensors.source[tensor], tasks.ms.shape
        # means over devices, which are equal in the paper
        moved = mean_transfers_ms(tasks.transfer_ms)[tensor]
        own = tasks.ms.mean(axis=1)
        # the critical paths through each node: t-level and b-level of list scheduling
        down, next_down = find_longest(own, maker, reader, moved)
        up, next_up = find_longest(own, reader, maker, moved)
        inward, outward = np.bincount(reader, moved, n), np.bincount(maker, moved, n)
        makers, tensors = pad_readings(n, maker, reader, tensor)
        transfer_ms = tasks.transfer_ms if len(tensor) else np.zeros((1, n_devices, n_devices))
        x = np.stack([own, down, up, inward, outward], axis=1)
        # messages go along the edges and against them
        ends = np.concatenate([[maker, reader], [reader, maker]], axis=1)
        both = np.concatenate([moved, moved])[:, None]
        return cls(
            problem=problem,
            unit=tasks.unit,
            ms=tasks.ms,
            maker=makers,
            tensor=tensors,
            transfer_ms=transfer_ms,
            readers=tuple(reader[maker == node] for node in range(n)),
            down=down,
            # deviation: standardised over all nodes, not over the candidates of a step, so SEL's
            # logits are computed once an episode
            x=standardise(torch.from_numpy(x).float(), 0),
            edges=torch.from_numpy(ends),
            edge_x=standardise(torch.from_numpy(both).float(), 0),
            down_path=mark_paths(next_down),
            up_path=mark_paths(next_up),
            scale_ms=float(own.mean()) or 1.0,
        )

    def __len__(self) -> int:
        return len(self.unit)


def find_longest(
    own: FloatArray, source: IntArray, target: IntArray, moved: FloatArray
) -> tuple[FloatArray, IntArray]:
    """(n,) longest path from each node along the edges, and the (n,) next node on it.

    Nodes take (n,) ``own`` and edges (e,) ``moved``. Nodes are in topological order, or all edges
    are reversed.
    """
    longest, following = own.copy(), np.full(len(own), NONE)
    if not len(source):
        return longest, following
    forward = bool((source < target).all())
    order = np.argsort(-source if forward else source, kind="stable")
    for edge in order.tolist():
        a, b = source[edge], target[edge]
        if own[a] + moved[edge] + longest[b] > longest[a]:
            longest[a] = own[a] + moved[edge] + longest[b]
            following[a] = b
    return longest, following


def mark_paths(following: IntArray) -> Tensor:
    """(n, n) sparse, 1 for the nodes on the path from each node, which it includes."""
    rows, columns = [], []
    for node in range(len(following)):
        at = node
        while at != NONE:
            rows.append(node)
            columns.append(int(at))
            at = following[at]
    ones, size = torch.ones(len(rows)), (len(following), len(following))
    ends = torch.tensor([rows, columns])
    return torch.sparse_coo_tensor(ends, ones, size, check_invariants=True).coalesce()


def pad_readings(
    n: int, maker: IntArray, reader: IntArray, tensor: IntArray
) -> tuple[IntArray, IntArray]:
    """(n, R) makers, padded by ``NONE``, and (n, R) tensors that each node reads."""
    counts = np.bincount(reader, minlength=n)
    makers = np.full((n, int(counts.max(initial=1))), NONE)
    tensors = np.zeros_like(makers)
    order = np.argsort(reader, kind="stable")
    place = np.arange(len(reader)) - np.repeat(np.cumsum(counts) - counts, counts)
    makers[reader[order], place] = maker[order]
    tensors[reader[order], place] = tensor[order]
    return makers, tensors


def standardise(values: Tensor, axis: int) -> Tensor:
    """Give values a mean of 0 and a deviation of 1 along an axis; constant ones become 0."""
    centred = values - values.mean(dim=axis, keepdim=True)
    return centred / (centred.square().mean(dim=axis, keepdim=True) + MIN_VARIANCE).sqrt()


class CandidateDevices(NamedTuple):
    """The devices for one node of each of B schedules."""

    features: FloatArray  # (B, D, 9) ``DEVICE_FEATURES`` and ``OWN_FEATURES``, in mean node times
    start: FloatArray  # (B, D) earliest start
    allowed: BoolArray  # (B, D) bool, see ``Schedules.find_allowed``


class Schedules:
    """B partial schedules of one graph, to each of which one node at a time is added.

    A device runs nodes in the order in which they were added. Transfers never wait.
    """

    def __init__(self, graph: TaskGraph, rows: int, respect_memory: bool) -> None:
        n, (n_units, n_devices) = len(graph), graph.problem.supported.shape
        self.graph, self.respect_memory = graph, respect_memory
        self.row = np.arange(rows)
        self.device = np.full((rows, n_units), NONE)
        self.start, self.finish = np.zeros((rows, n)), np.zeros((rows, n))
        self.free, self.load = np.zeros((rows, n_devices)), np.zeros((rows, n_devices))
        self.used = np.zeros((rows, n_devices))
        self.waiting = np.tile((graph.maker != NONE).sum(axis=1), (rows, 1))
        self.done = np.zeros((rows, n), dtype=np.bool_)

    @property
    def candidates(self) -> BoolArray:
        """(B, n) bool, nodes that are not placed and whose makers are."""
        ready: BoolArray = (self.waiting == 0) & ~self.done
        return ready

    def describe_devices(self, node: IntArray) -> CandidateDevices:
        graph, problem, rows = self.graph, self.graph.problem, self.row
        # a node may start when its inputs have arrived and the device is free
        maker, tensor = graph.maker[node], graph.tensor[node]
        exists = maker != NONE
        there = self.device[rows[:, None], graph.unit[maker]]
        ended = np.where(exists, self.finish[rows[:, None], maker], 0.0)
        begun = np.where(exists, self.start[rows[:, None], maker], np.inf)
        arrival = ended[..., None] + graph.transfer_ms[tensor, there]
        ready = np.where(exists[..., None], arrival, 0.0).max(axis=1)
        start = np.maximum(ready, self.free)
        ms = graph.ms[node]
        n_devices = ms.shape[1]
        # load, first start and last end of the inputs' makers on each device
        here = exists[..., None] & (there[..., None] == np.arange(n_devices))
        makers_ms = (here * graph.ms[maker, there][..., None]).sum(axis=1)
        first = np.where(here, begun[..., None], np.inf).min(axis=1)
        last = (here * ended[..., None]).max(axis=1)
        # the first operator of a unit brings all of its bytes
        unit = graph.unit[node]
        limits, limited = problem.limits_bytes, np.isfinite(problem.limits_bytes)
        new = np.where(self.device[rows, unit] == NONE, problem.unit_bytes[unit], 0.0)
        left = limits - self.used @ problem.memory.shared - new[:, None]
        share = np.where(limited, left / np.where(limited, np.maximum(limits, 1), 1), 1.0)
        scaled = (self.load, makers_ms, np.where(np.isfinite(first), first, 0.0), last, start)
        own = (start + ms, ms)
        columns = [column / graph.scale_ms for column in (*scaled, *own)]
        columns += [share.clip(-1.0, 1.0), np.broadcast_to(limited, share.shape)]
        return CandidateDevices(np.stack(columns, axis=2), start, self.find_allowed(unit, left))

    def find_allowed(self, unit: IntArray, left: FloatArray) -> BoolArray:
        """(B, D) bool, devices for (B,) units; a unit stays where its first node was placed."""
        supported = self.graph.problem.supported[unit]
        if self.respect_memory:
            supported = find_fitting_devices(supported, left)
        placed = self.device[self.row, unit]
        there = np.arange(left.shape[1]) == placed[:, None]
        return np.where((placed != NONE)[:, None], there, supported)

    def add(self, node: IntArray, device: IntArray, start: FloatArray) -> None:
        """Add (B,) nodes on (B,) devices; ``start`` is that of ``CandidateDevices``."""
        graph, rows = self.graph, self.row
        unit, ms = graph.unit[node], graph.ms[node, device]
        new = self.device[rows, unit] == NONE
        self.device[rows, unit] = device
        self.used[rows, device] += np.where(new, graph.problem.unit_bytes[unit], 0.0)
        self.start[rows, node] = start[rows, device]
        self.finish[rows, node] = start[rows, device] + ms
        self.free[rows, device] = self.finish[rows, node]
        self.load[rows, device] += ms
        self.done[rows, node] = True
        for row, operator in enumerate(node.tolist()):
            np.subtract.at(self.waiting[row], graph.readers[operator], 1)

    def length_ms(self) -> FloatArray:
        """(B,) finish of the last node of each schedule."""
        return self.finish.max(axis=1)
