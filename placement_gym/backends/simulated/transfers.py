"""Transfers of a simulated schedule, reconstructed from the times of its operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt8
from placement_gym.schedules import Simulator


@dataclass(frozen=True)
class Transfers:
    """(n_transfers,) columns of the transfers between devices, in the order of their queues.

    Attributes:
        operator: Operator that makes the tensor.
        source: Device of the operator.
        target: Device that receives the tensor.
        start_ms: Start of the transfer.
        finish_ms: End of the transfer.
        size_bytes: Size of the tensor.
    """

    operator: IntArray
    source: IntArray
    target: IntArray
    start_ms: FloatArray
    finish_ms: FloatArray
    size_bytes: IntArray

    def __len__(self) -> int:
        return len(self.operator)


def schedule_transfers(simulator: Simulator, placement: UInt8, finish: FloatArray) -> Transfers:
    """Reconstruct the transfers of a schedule.

    Each channel takes transfers in the order in which operators finish, or in that of the list for
    ``"list"``. Schedule ``"calls"`` has none: calls include their transfers.

    Args:
        simulator: The simulator of the schedule.
        placement: (n_units,) uint8.
        finish: (n_operators,) finish in ms, from ``Simulator.schedule``.
    """
    axes, program = simulator.semantics, simulator.program
    place = placement[program.unit].tolist()
    order, gap_ms = np.arange(len(place)), axes.link_gap_ms
    if axes.schedule == "calls":
        order = order[:0]
    elif axes.schedule == "event":
        order = np.lexsort((place, finish))
    elif axes.schedule == "list":
        order = simulator.sequence.astype(np.int64)
    free: dict[int, float] = {}
    rows = []
    for operator in order.tolist():
        ready, here = float(finish[operator]), place[operator]
        for tensor in range(program.first_tensor[operator], program.first_tensor[operator + 1]):
            first, last = program.first_reader[tensor : tensor + 2]
            places = [place[reader] for reader in program.readers[first:last]]
            for targets in destinations(places, here, axes.transfer):
                ms = max(float(program.transfer_ms[tensor, here, there]) for there in targets)
                start = ready
                for channel in find_channels(simulator, here, targets):
                    start = max(start, free.get(channel, 0.0))
                    free[channel] = start + ms + gap_ms
                size = int(simulator.tensor_bytes[tensor])
                rows += [(operator, here, there, start, start + ms, size) for there in targets]
    columns: list[Any] = list(zip(*rows, strict=True)) or [()] * 6
    integers = np.array([*columns[:3], columns[5]], dtype=np.int64)
    start_ms, finish_ms = np.array(columns[3:5], dtype=np.float64)
    return Transfers(integers[0], integers[1], integers[2], start_ms, finish_ms, integers[3])


def find_channels(simulator: Simulator, here: int, targets: list[int]) -> list[int]:
    """The channels that a transfer occupies in turn; a serial schedule has a single one."""
    axes, channels = simulator.semantics, simulator.channels
    if axes.schedule not in ("event", "list"):
        return [0]
    there = here if axes.transfer == "output" else targets[0]
    both = int(channels.send[here, there]), int(channels.receive[here, there])
    return [channel for channel in both if channel >= 0]


def destinations(places: list[int], here: int, transfer: str) -> list[list[int]]:
    """The devices that each transfer of a tensor reaches; see ``Semantics.transfer``."""
    away = [place for place in places if place != here]
    if transfer == "edge":
        return [[place] for place in away]
    distinct = list(dict.fromkeys(away))
    if transfer == "output":
        return [distinct] if distinct else []
    return [[place] for place in distinct]
