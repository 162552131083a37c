"""Levels of a coarsened problem: clusters of units as flat arrays, which kernels read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.tasks import Tasks

HASH_SEED = 0


class Level(NamedTuple):
    """Clusters of units, and the tensors between them. Serial costs are exact on every level.

    Attributes:
        ms: (n, n_devices) time of each cluster.
        held: (n,) bytes that it holds.
        possible: (n, n_devices) bool, whether the device runs all its units and can hold them.
        source: (n_tensors,) cluster that makes the tensor.
        first_reader: (n_tensors + 1,) where each tensor's readers begin.
        readers: (n_readings,) distinct clusters other than the source.
        transfer_ms: (n_tensors, n_devices, n_devices) time to move the tensor.
        first_incident: (n + 1,) where the tensors begin that a cluster makes or reads.
        incident: (n_incident,) these tensors.
    """

    ms: FloatArray
    held: FloatArray
    possible: BoolArray
    source: IntArray
    first_reader: IntArray
    readers: IntArray
    transfer_ms: FloatArray
    first_incident: IntArray
    incident: IntArray

    @classmethod
    def of_units(cls, problem: Problem, costs: CostTable) -> Level:
        """The finest level: every unit is a cluster."""
        tasks = Tasks.of_units(problem.units, costs)
        tensor, reader = tasks.tensors.readings()
        return make_level(
            np.ascontiguousarray(tasks.ms),
            problem.unit_bytes,
            np.ascontiguousarray(problem.possible),
            tasks.tensors.source,
            (tensor, reader),
            np.ascontiguousarray(tasks.transfer_ms),
        )

    def edges(self) -> tuple[IntArray, FloatArray]:
        """(2, n_edges) distinct pairs of clusters, and the transfer ms that joining each saves.

        A tensor's mean transfer is divided among its readers. Where units depend on each other in a
        cycle, edges to lower numbers are left out.
        """
        n, d = self.ms.shape
        counts = np.diff(self.first_reader)
        source = np.repeat(self.source, counts)
        saved = self.transfer_ms.sum(axis=(1, 2)) / max(d * (d - 1), 1) / counts
        saved = np.repeat(saved, counts)
        forward = source < self.readers
        key = source[forward] * n + self.readers[forward]
        pairs, index = np.unique(key, return_inverse=True)
        saved_by_pair = np.bincount(index, saved[forward], len(pairs)).astype(np.float64)
        return np.stack([pairs // n, pairs % n]), saved_by_pair

    def contract(self, labels: IntArray) -> Level:
        """The level whose clusters are ``labels``: (n,) numbers from 0 in topological order."""
        n = int(labels.max()) + 1
        ms = np.stack([np.bincount(labels, ms, n) for ms in self.ms.T], axis=1).astype(np.float64)
        impossible = np.stack([np.bincount(labels, ~ok, n) for ok in self.possible.T], axis=1)
        source, (tensor, reader) = labels[self.source], self.readings()
        pairs = np.stack([tensor, labels[reader]])[:, source[tensor] != labels[reader]]
        tensor, reader = distinct_pairs(pairs, n)
        kept, tensor = np.unique(tensor, return_inverse=True)
        source, transfer_ms = source[kept], self.transfer_ms[kept]
        first, same = find_equal_tensors(source, tensor, reader, n)
        merged = np.zeros((len(first), *transfer_ms.shape[1:]))
        np.add.at(merged, same, transfer_ms)
        stays = np.isin(tensor, first)
        tensor = np.searchsorted(first, tensor[stays])
        held = np.bincount(labels, self.held, n).astype(np.float64)
        return make_level(ms, held, impossible == 0, source[first], (tensor, reader[stays]), merged)

    def readings(self) -> tuple[IntArray, IntArray]:
        """(n_readings,) tensor and (n_readings,) cluster of every reading."""
        return np.repeat(np.arange(len(self.source)), np.diff(self.first_reader)), self.readers


def make_level(
    ms: FloatArray,
    held: FloatArray,
    possible: BoolArray,
    source: IntArray,
    readings: tuple[IntArray, IntArray],
    transfer_ms: FloatArray,
) -> Level:
    """Index the tensors by cluster; ``readings`` are tensor, ascending, and reader."""
    tensor, reader = readings
    node = np.concatenate([source, reader])
    incident = np.concatenate([np.arange(len(source)), tensor])
    order = np.argsort(node, kind="stable")
    return Level(
        ms=ms,
        held=held,
        possible=possible,
        source=source,
        first_reader=np.searchsorted(tensor, np.arange(len(source) + 1)),
        readers=np.ascontiguousarray(reader),
        transfer_ms=transfer_ms,
        first_incident=np.searchsorted(node[order], np.arange(len(ms) + 1)),
        incident=incident[order],
    )


def distinct_pairs(pairs: IntArray, n: int) -> IntArray:
    """Sort (2, k) pairs, of which the second is below ``n``, and drop repetitions."""
    key = np.unique(pairs[0] * n + pairs[1])
    return np.stack([key // n, key % n])


def find_equal_tensors(
    source: IntArray, tensor: IntArray, reader: IntArray, n: int
) -> tuple[IntArray, IntArray]:
    """Group tensors that are made and read by the same clusters, as they always move together.

    Sets of readers are compared by the sum of a random 64-bit number for each reader.

    Returns:
        (n_groups,) the first tensor of each group, ascending, and (n_tensors,) group.
    """
    bits = np.random.default_rng(HASH_SEED).integers(0, 2**63, 2 * n, dtype=np.uint64)
    key = bits[n + source]
    np.add.at(key, tensor, bits[reader])
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[group.ravel()]
