"""The list schedule: every device takes its operators in one fixed order."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.backends.simulated.channels import Channels
from placement_gym.backends.simulated.event import EDGE, NOTHING, OUTPUT
from placement_gym.backends.simulated.program import Int8, Int32, Program, Readings
from placement_gym.costs.table import FloatArray

LANES = 32
"""Placements side by side; shorter loops are unrolled before they can become vectors."""


@njit(cache=True, nogil=True)
def list_schedule(
    program: Program,
    placement: Int8,
    sequence: Int32,
    channels: Channels,
    transfer: int,
    op_gap_ms: float,
    link_gap_ms: float,
) -> tuple[float, FloatArray, FloatArray]:
    """Run the operators in one order; transfers queue in that order too.

    Args:
        program: Operators, tensors and their costs.
        placement: (n_units,) int8.
        sequence: (n_operators,) int32, a topological order.
        channels: On which transfers wait for each other, if they do.
        transfer: ``DEST``, ``EDGE`` or ``OUTPUT``.
        op_gap_ms: Idle time of a device after an operator.
        link_gap_ms: Idle time of a channel after a transfer.

    Returns:
        When the last device or channel is free again, and (n_operators,) start and finish, in ms.
    """
    unit, ms, transfer_ms = program.unit, program.ms, program.transfer_ms
    first_tensor, first_reader = program.first_tensor, program.first_reader
    readers, leaves, enters = program.readers, channels.send, channels.receive
    n_operators, n_devices = ms.shape
    links_are_free = leaves[0, 0] == NOTHING
    place = np.empty(n_operators, np.int8)
    free, channel_free = np.zeros(n_devices), np.zeros(channels.n)
    start, finish = np.zeros(n_operators), np.empty(n_operators)
    sent, arrival = np.full(n_devices, NOTHING, np.int32), np.empty(n_devices)
    for i in range(n_operators):
        place[i] = placement[unit[i]]
    for i in sequence:
        here = place[i]
        start[i] = max(start[i], free[here])
        end = start[i] + ms[i, here]
        finish[i] = end
        free[here] = end + op_gap_ms
        for t in range(first_tensor[i], first_tensor[i + 1]):
            for r in range(first_reader[t], first_reader[t + 1]):
                reader = readers[r]
                there = place[reader]
                if there == here:
                    start[reader] = max(start[reader], end)
                    continue
                duration = transfer_ms[t, here, there]
                if transfer == OUTPUT:
                    there = here
                    for other in range(first_reader[t], first_reader[t + 1]):
                        duration = max(duration, transfer_ms[t, here, place[readers[other]]])
                if links_are_free:
                    start[reader] = max(start[reader], end + duration)
                    continue
                if transfer == EDGE or sent[there] != t:
                    sent[there] = t
                    channel = leaves[here, there]
                    begins = max(end, channel_free[channel])
                    channel_free[channel] = begins + duration + link_gap_ms
                    channel = enters[here, there]
                    if channel != NOTHING:
                        begins = max(begins, channel_free[channel])
                        channel_free[channel] = begins + duration + link_gap_ms
                    arrival[there] = begins + duration
                start[reader] = max(start[reader], arrival[there])
    return max(free.max(), channel_free.max()), start, finish


@njit(cache=True, nogil=True)
def list_batch(
    program: Program, placements: Int8, readings: Readings, sequence: Int32, op_gap_ms: float
) -> FloatArray:
    """(k,) makespans of (n_units, k) int8 placements, ``LANES`` of them side by side.

    Bitwise those of ``list_schedule`` where no transfer waits and none is shared by devices. Loops
    over pairs of devices with a choice in each lane become vector instructions, table look-ups
    would not: made for two or three devices.
    """
    unit, source, ms, transfer_ms = program.unit, program.source, program.ms, program.transfer_ms
    first, tensor = readings.first, readings.tensor
    n_operators, n_devices = ms.shape
    k = placements.shape[1]
    makespans = np.empty(k)
    place = np.zeros((n_operators, LANES), np.int64)
    finish, free = np.zeros((n_operators, LANES)), np.empty((n_devices, LANES))
    ready = np.empty(LANES)
    for begin in range(0, k, LANES):
        width = min(LANES, k - begin)
        for i in range(n_operators):
            for lane in range(width):
                place[i, lane] = placements[unit[i], begin + lane]
        free[:] = 0.0
        for i in sequence:
            ready[:] = 0.0
            for r in range(first[i], first[i + 1]):
                t = tensor[r]
                producer = source[t]
                for lane in range(LANES):
                    ready[lane] = max(ready[lane], finish[producer, lane])
                for here in range(n_devices):
                    for there in range(n_devices):
                        if here != there:
                            cost = transfer_ms[t, here, there]
                            for lane in range(LANES):
                                moves = (place[producer, lane] == here) & (place[i, lane] == there)
                                arrival = finish[producer, lane] + (cost if moves else 0.0)
                                ready[lane] = max(ready[lane], arrival)
            for device in range(n_devices):
                duration = ms[i, device]
                for lane in range(LANES):
                    done = max(ready[lane], free[device, lane]) + duration
                    mine = place[i, lane] == device
                    finish[i, lane] = done if mine else finish[i, lane]
                    free[device, lane] = done + op_gap_ms if mine else free[device, lane]
        for lane in range(width):
            makespans[begin + lane] = free[:, lane].max()
    return makespans
