"""Schedules that are sums: serial, as OpenVINO HETERO runs, and the loads of devices.

Serial runs one operator or transfer at a time. Loads are those of Tarnawski et al. 2020. Batches of
placements are evaluated in lanes, by vector instructions.
"""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt8, kernel
from placement_gym.schedules.program import Program

LANES = 32
"""Placements evaluated together; shorter loops would be unrolled instead of vectorised."""
MAX_LANE_DEVICES = 3
FEWEST_IN_LANES = 16
"""Fewer placements are faster one by one, as unused lanes compute as well. For serial and list
schedules of 9 problems with 7 to 9,199 units, lanes took 0.91 of that time for 12 placements
(geometric mean; longer in 11 of 18 cases), 0.70 for 16 (7 of 18, at worst 1.7) and 0.58 for 20
(2)."""


def fill_lanes(n_placements: int, n_devices: int) -> bool:
    """Return whether lanes are faster than one placement after another."""
    return n_placements >= FEWEST_IN_LANES and n_devices <= MAX_LANE_DEVICES


@kernel
def serial(program: Program, placement: UInt8) -> float:
    """Sum of operator times and transfers, once per tensor and destination, in ms."""
    n_operators, n_devices = program.ms.shape
    place = np.empty(n_operators, np.uint8)
    total = 0.0
    for i in range(n_operators):
        place[i] = placement[program.unit[i]]
        total += program.ms[i, place[i]]
    # Devices as bits: a tensor is sent once to each other device, whatever its readers there.
    for t in range(len(program.source)):
        here = place[program.source[t]]
        reached = 1 << here
        for r in range(program.first_reader[t], program.first_reader[t + 1]):
            reached |= 1 << place[program.readers[r]]
        if reached != 1 << here:
            # The diagonal is zero, so the maker's device is no special case.
            for there in range(n_devices):
                if reached >> there & 1:
                    total += program.transfer_ms[t, here, there]
    return total


@kernel
def serial_batch(program: Program, placements: UInt8) -> FloatArray:
    """(k,) latencies of (n_units, k) uint8 placements, bitwise those of ``serial``.

    Evaluates ``LANES`` of them at a time, as ``list_batch``.
    """
    unit, source, ms, transfer_ms = program.unit, program.source, program.ms, program.transfer_ms
    first_reader, readers = program.first_reader, program.readers
    n_operators, n_devices = ms.shape
    k = placements.shape[1]
    totals = np.empty(k)
    # Lanes beyond the last placement compute unused values: loops keep a fixed length.
    place = np.zeros((n_operators, LANES), np.int64)
    total, reached = np.empty(LANES), np.empty(LANES, np.int64)
    for begin in range(0, k, LANES):
        width = min(LANES, k - begin)
        total[:] = 0.0
        for i in range(n_operators):
            for lane in range(width):
                place[i, lane] = placements[unit[i], begin + lane]
            # A select by device, as a look-up by lane would not be vectorised.
            for device in range(n_devices):
                duration = ms[i, device]
                for lane in range(LANES):
                    total[lane] += duration if place[i, lane] == device else 0.0
        for t in range(len(source)):
            # One destination after another, as in `serial`: sums are bitwise equal.
            for there in range(n_devices):
                reached[:] = 0
                for r in range(first_reader[t], first_reader[t + 1]):
                    reader = readers[r]
                    for lane in range(LANES):
                        reached[lane] |= place[reader, lane] == there
                for here in range(n_devices):
                    if here != there:
                        cost = transfer_ms[t, here, there]
                        for lane in range(LANES):
                            moves = (place[source[t], lane] == here) & (reached[lane] == 1)
                            total[lane] += cost if moves else 0.0
        for lane in range(width):
            totals[begin + lane] = total[lane]
    return totals


@kernel
def serial_starts(program: Program, placement: UInt8) -> FloatArray:
    """(n_operators,) start of each operator, after all transfers of earlier ones, in ms."""
    n_operators, n_devices = program.ms.shape
    start = np.empty(n_operators)
    now = 0.0
    for i in range(n_operators):
        here = placement[program.unit[i]]
        start[i] = now
        now += program.ms[i, here]
        for t in range(program.first_tensor[i], program.first_tensor[i + 1]):
            reached = 0
            for r in range(program.first_reader[t], program.first_reader[t + 1]):
                reached |= 1 << placement[program.unit[program.readers[r]]]
            for there in range(n_devices):
                if reached >> there & 1:
                    now += program.transfer_ms[t, here, there]
    return start


@kernel
def load_schedule(program: Program, placement: UInt8) -> FloatArray:
    """(n_devices,) load of each device in ms: its operators and its transfers.

    A tensor that leaves its device counts once there and once on every other device that reads it.
    """
    n_operators, n_devices = program.ms.shape
    load = np.zeros(n_devices)
    # With requests in flight, a device's time per request is a sum.
    for i in range(n_operators):
        here = placement[program.unit[i]]
        load[here] += program.ms[i, here]
    # Devices as bits: a tensor counts once on each.
    for t in range(len(program.source)):
        here = placement[program.unit[program.source[t]]]
        reached = 1 << here
        for r in range(program.first_reader[t], program.first_reader[t + 1]):
            reached |= 1 << placement[program.unit[program.readers[r]]]
        if reached != 1 << here:
            for device in range(n_devices):
                if reached >> device & 1:
                    load[device] += program.boundary_ms[t, device]
    return load


@kernel
def traffic(program: Program, placement: UInt8, size_bytes: IntArray) -> tuple[int, int]:
    """Number of transfers, one per tensor and other device that reads it, and their bytes.

    ``size_bytes`` is (n_tensors,) in the program's order.
    """
    unit, source, readers = program.unit, program.source, program.readers
    first_reader, n_devices = program.first_reader, program.ms.shape[1]
    transfers, moved = 0, 0
    # Devices as bits: one transfer to each other device.
    for t in range(len(source)):
        here = placement[unit[source[t]]]
        reached = 1 << here
        for r in range(first_reader[t], first_reader[t + 1]):
            reached |= 1 << placement[unit[readers[r]]]
        if reached != 1 << here:
            for there in range(n_devices):
                away = (reached >> there & 1) * (there != here)
                transfers += away
                moved += away * size_bytes[t]
    return transfers, moved
