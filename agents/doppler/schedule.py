"""Many partial schedules side by side: what a device looks like when a unit is to be placed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.doppler.graph import NOBODY, TaskGraph
from placement_gym.base.arrays import BoolArray, FloatArray, IntArray

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
"""Further columns, for devices that differ."""


class Offer(NamedTuple):
    """What each of B schedules offers a node.

    Attributes:
        features: (B, D, 9) in mean times of a node, and shares.
        start: (B, D) earliest start.
        allowed: (B, D) bool, devices that support the unit, and have room if memory is kept.
    """

    features: FloatArray
    start: FloatArray
    allowed: BoolArray


class Schedules:
    """B schedules of one graph, to which one node each is added at a time.

    A device runs its nodes in the order in which they were added, and transfers never wait for
    each other.

    Args:
        graph: The graph.
        rows: B.
        room: Whether only devices with room left are allowed.
    """

    def __init__(self, graph: TaskGraph, rows: int, room: bool) -> None:
        n, (n_units, n_devices) = len(graph), graph.supported.shape
        self.graph, self.room = graph, room
        self.row = np.arange(rows)
        self.device = np.full((rows, n_units), NOBODY)
        self.start, self.finish = np.zeros((rows, n)), np.zeros((rows, n))
        self.free, self.load = np.zeros((rows, n_devices)), np.zeros((rows, n_devices))
        self.used = np.zeros((rows, n_devices))
        self.waiting = np.tile((graph.maker != NOBODY).sum(axis=1), (rows, 1))
        self.done = np.zeros((rows, n), dtype=np.bool_)

    @property
    def candidates(self) -> BoolArray:
        """(B, n) nodes whose makers have been placed and that have not."""
        ready: BoolArray = (self.waiting == 0) & ~self.done
        return ready

    def offer(self, node: IntArray) -> Offer:
        """What devices look like for (B,) nodes."""
        graph, rows = self.graph, self.row
        maker, tensor = graph.maker[node], graph.tensor[node]
        exists = maker != NOBODY
        there = self.device[rows[:, None], graph.unit[maker]]
        ended = np.where(exists, self.finish[rows[:, None], maker], 0.0)
        begun = np.where(exists, self.start[rows[:, None], maker], np.inf)
        arrival = ended[..., None] + graph.transfer_ms[tensor, there]
        ready = np.where(exists[..., None], arrival, 0.0).max(axis=1)
        start = np.maximum(ready, self.free)
        ms = graph.ms[node]
        n_devices = ms.shape[1]
        here = exists[..., None] & (there[..., None] == np.arange(n_devices))
        makers_ms = (here * graph.ms[maker, there][..., None]).sum(axis=1)
        first = np.where(here, begun[..., None], np.inf).min(axis=1)
        last = (here * ended[..., None]).max(axis=1)
        unit = graph.unit[node]
        limited = np.isfinite(graph.limits)
        new = self.device[rows, unit] == NOBODY
        left = (
            graph.limits - self.used @ graph.shared - np.where(new, graph.held[unit], 0.0)[:, None]
        )
        share = np.where(limited, left / np.where(limited, np.maximum(graph.limits, 1), 1), 1.0)
        scaled = (self.load, makers_ms, np.where(np.isfinite(first), first, 0.0), last, start)
        own = (start + ms, ms)
        columns = [column / graph.scale_ms for column in (*scaled, *own)]
        columns += [share.clip(-1.0, 1.0), np.broadcast_to(limited, share.shape)]
        return Offer(np.stack(columns, axis=2), start, self.find_allowed(unit, left))

    def find_allowed(self, unit: IntArray, left: FloatArray) -> BoolArray:
        """(B, D) devices for (B,) units; a unit whose first node is placed stays there."""
        supported = self.graph.supported[unit]
        if self.room:
            fits = supported & (left >= 0.0)
            widest = np.where(supported, left, -np.inf).argmax(axis=1)
            one = np.arange(left.shape[1]) == widest[:, None]
            supported = np.where(fits.any(axis=1, keepdims=True), fits, one)
        placed = self.device[self.row, unit]
        there = np.arange(left.shape[1]) == placed[:, None]
        return np.where((placed != NOBODY)[:, None], there, supported)

    def add(self, node: IntArray, device: IntArray, start: FloatArray) -> None:
        """Add (B,) nodes on (B,) devices; ``start``: (B, D) of their offer."""
        graph, rows = self.graph, self.row
        unit, ms = graph.unit[node], graph.ms[node, device]
        new = self.device[rows, unit] == NOBODY
        self.device[rows, unit] = device
        self.used[rows, device] += np.where(new, graph.held[unit], 0.0)
        self.start[rows, node] = start[rows, device]
        self.finish[rows, node] = start[rows, device] + ms
        self.free[rows, device] = self.finish[rows, node]
        self.load[rows, device] += ms
        self.done[rows, node] = True
        for row, one in enumerate(node.tolist()):
            np.subtract.at(self.waiting[row], graph.readers[one], 1)

    def length_ms(self) -> FloatArray:
        """(B,) when the last node of each schedule finishes."""
        return self.finish.max(axis=1)
