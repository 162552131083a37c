"""Memory that placements hold on each device."""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt8, kernel
from placement_gym.schedules.program import Program


@kernel
def held_bytes(placements: UInt8, unit_bytes: FloatArray, n_devices: int) -> FloatArray:
    """(k, n_devices) bytes of weights on each device, for (k, n_units) uint8 placements."""
    device_bytes = np.zeros((len(placements), n_devices))
    for k in range(len(placements)):
        for unit in range(len(unit_bytes)):
            device_bytes[k, placements[k, unit]] += unit_bytes[unit]
    return device_bytes


def peak_bytes(
    program: Program,
    tensor_bytes: IntArray,
    operator_devices: UInt8,
    start: FloatArray,
    finish: FloatArray,
    n_devices: int,
) -> IntArray:
    """(n_devices,) peak bytes of live outputs.

    An operator's tensors occupy memory on its device from its start until their last reader
    finishes; memory released at a moment can be reused at that moment. As in Placeto's simulator,
    copies on receiving devices do not count. ``tensor_bytes`` is (n_tensors,) in the program's
    order; ``operator_devices``, ``start`` and ``finish`` are (n_operators,).
    """
    end = np.maximum.reduceat(finish[program.readers], program.first_reader[:-1])
    device = operator_devices[program.source]
    times = np.concatenate([end, start[program.source]])
    change = np.concatenate([-tensor_bytes, tensor_bytes])
    order = np.lexsort((change, times))
    peaks = np.zeros(n_devices, dtype=np.int64)
    for d in range(n_devices):
        here = np.concatenate([device, device])[order] == d
        peaks[d] = np.cumsum(change[order][here]).max(initial=0)
    return peaks
