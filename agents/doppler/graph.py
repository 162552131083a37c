"""The graph of tasks as both policies see it: levels, transfers and longest paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from placement_gym.base.arrays import BoolArray, FloatArray, IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.tasks import Tasks

NODE_FEATURES = (
    "time",
    "longest path to an end",
    "longest path from a beginning",
    "transfers of inputs",
    "transfers of outputs",
)
"""Columns of ``TaskGraph.x``; means over devices, standardised over nodes."""
NOBODY = -1
TINY = 1e-8


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """What stays the same in all episodes of one problem.

    Attributes:
        unit: (n,) unit of each node.
        ms: (n, D) times.
        maker: (n, R) nodes whose outputs each node reads; ``NOBODY`` where there are fewer.
        tensor: (n, R) which tensors these are.
        transfer_ms: (n_tensors, D, D); one of zeros if nothing is read.
        readers: For each node, the nodes that read from it.
        supported: (n_units, D) bool.
        held: (n_units,) bytes.
        limits: (D,) bytes.
        shared: (D, D) bool, devices that share a limit; each with itself.
        down: (n,) longest path to an end at mean costs, the node included.
        x: (n, 5) float32, ``NODE_FEATURES``.
        edges: (2, e) nodes at both ends of every reading, in both directions.
        edge_x: (e, 1) float32 mean transfers, standardised.
        down_path: (n, n) sparse, 1 for the nodes on each node's longest path to an end.
        up_path: (n, n) sparse, the same for the path from a beginning.
        scale_ms: Mean time of a node.
    """

    unit: IntArray
    ms: FloatArray
    maker: IntArray
    tensor: IntArray
    transfer_ms: FloatArray
    readers: tuple[IntArray, ...]
    supported: BoolArray
    held: FloatArray
    limits: FloatArray
    shared: BoolArray
    down: FloatArray
    x: Tensor
    edges: Tensor
    edge_x: Tensor
    down_path: Tensor
    up_path: Tensor
    scale_ms: float

    @classmethod
    def of(cls, problem: Problem, costs: CostTable) -> TaskGraph:
        """The graph of units, or of operators if units form cycles."""
        tasks = Tasks.in_topological_order(problem.units, costs)
        tensor, reader = tasks.tensors.readings()
        maker, (n, n_devices) = tasks.tensors.source[tensor], tasks.ms.shape
        pairs = max(n_devices * (n_devices - 1), 1)
        moved = tasks.transfer_ms.sum(axis=(1, 2))[tensor] / pairs
        own = tasks.ms.mean(axis=1)
        down, next_down = find_longest(own, maker, reader, moved)
        up, next_up = find_longest(own, reader, maker, moved)
        inward, outward = np.bincount(reader, moved, n), np.bincount(maker, moved, n)
        makers, tensors = pad_readings(n, maker, reader, tensor)
        transfer_ms = tasks.transfer_ms if len(tensor) else np.zeros((1, n_devices, n_devices))
        x = np.stack([own, down, up, inward, outward], axis=1)
        ends = np.concatenate([[maker, reader], [reader, maker]], axis=1)
        both = np.concatenate([moved, moved])[:, None]
        return cls(
            unit=tasks.unit,
            ms=tasks.ms,
            maker=makers,
            tensor=tensors,
            transfer_ms=transfer_ms,
            readers=tuple(reader[maker == node] for node in range(n)),
            supported=problem.supported,
            held=problem.unit_bytes.astype(np.float64),
            limits=problem.limits_bytes,
            shared=problem.memory.shared,
            down=down,
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

    Args:
        own: (n,) times of nodes.
        source: (e,) where edges begin; nodes are in topological order, or all edges reversed.
        target: (e,) where they end.
        moved: (e,) times of edges.
    """
    longest, following = own.copy(), np.full(len(own), NOBODY)
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
    """(n, n) sparse, 1 for the nodes on the path from each node, itself included."""
    rows, columns = [], []
    for node in range(len(following)):
        at = node
        while at != NOBODY:
            rows.append(node)
            columns.append(int(at))
            at = following[at]
    ones, size = torch.ones(len(rows)), (len(following), len(following))
    ends = torch.tensor([rows, columns])
    return torch.sparse_coo_tensor(ends, ones, size, check_invariants=True).coalesce()


def pad_readings(
    n: int, maker: IntArray, reader: IntArray, tensor: IntArray
) -> tuple[IntArray, IntArray]:
    """(n, R) makers and tensors that each node reads, ``NOBODY`` where there are fewer."""
    counts = np.bincount(reader, minlength=n)
    makers = np.full((n, int(counts.max(initial=1))), NOBODY)
    tensors = np.zeros_like(makers)
    order = np.argsort(reader, kind="stable")
    place = np.arange(len(reader)) - np.repeat(np.cumsum(counts) - counts, counts)
    makers[reader[order], place] = maker[order]
    tensors[reader[order], place] = tensor[order]
    return makers, tensors


def standardise(values: Tensor, axis: int) -> Tensor:
    """Values with mean 0 and deviation 1 along an axis; constant ones become 0."""
    centred = values - values.mean(dim=axis, keepdim=True)
    return centred / (centred.square().mean(dim=axis, keepdim=True) + TINY).sqrt()
