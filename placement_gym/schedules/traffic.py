"""Counts of transfers between devices."""

from __future__ import annotations

from numba import njit

from placement_gym.base.arrays import IntArray, UInt8
from placement_gym.schedules.program import Program


@njit(cache=True, nogil=True)
def traffic(program: Program, placement: UInt8, size_bytes: IntArray) -> tuple[int, int]:
    """Number of transfers, one per tensor and other device that reads it, and their bytes.

    Args:
        program: Operators and tensors.
        placement: (n_units,) uint8.
        size_bytes: (n_tensors,) in the program's order.
    """
    unit, source, readers = program.unit, program.source, program.readers
    first_reader, n_devices = program.first_reader, program.ms.shape[1]
    transfers, moved = 0, 0
    # Devices as bits: one transfer to each other device, however many readers it has there.
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
