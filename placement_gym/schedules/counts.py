"""What is counted of a placement, whatever its schedule: submodels and transfers."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from placement_gym.base.arrays import IntArray, UInt8, UInt32
from placement_gym.schedules.program import Program
from placement_gym.schedules.submodels import Flow, count_submodels


class Counts(NamedTuple):
    """Counts of one placement.

    Attributes:
        submodels: (n_devices,) submodels on each device.
        n_submodels: Their sum.
        n_transfers: Tensors that change device, one for each destination.
        transfer_bytes: Their bytes.
    """

    submodels: IntArray
    n_submodels: int
    n_transfers: int
    transfer_bytes: int


@njit(cache=True, nogil=True)
def count(
    program: Program, flow: Flow, flow_unit: UInt32, size_bytes: IntArray, placement: UInt8
) -> Counts:
    """Count in one call, because a call of a kernel takes as long as a hundred operators.

    Args:
        program: Operators and tensors.
        flow: The edges that determine submodels.
        flow_unit: The unit of each of their operators.
        size_bytes: (n_tensors,) in the program's order.
        placement: (n_units,) uint8.
    """
    submodels = count_submodels(flow, flow_unit, placement, program.ms.shape[1])
    n_transfers, transfer_bytes = count_transfers(program, placement, size_bytes)
    return Counts(submodels, submodels.sum(), n_transfers, transfer_bytes)


@njit(cache=True, nogil=True)
def count_transfers(program: Program, placement: UInt8, size_bytes: IntArray) -> tuple[int, int]:
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
