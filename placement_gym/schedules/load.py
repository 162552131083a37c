"""The load schedule: busy time of each device of a pipeline (Tarnawski et al. 2020)."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.base.arrays import FloatArray, UInt8
from placement_gym.schedules.program import Program


@njit(cache=True, nogil=True)
def load_schedule(program: Program, placement: UInt8) -> FloatArray:
    """(n_devices,) load of each device in ms: its operators and its transfers.

    A tensor that leaves its device counts once there and once on every other device that reads it.

    Args:
        program: Operators, tensors and their costs.
        placement: (n_units,) uint8.
    """
    n_operators, n_devices = program.ms.shape
    load = np.zeros(n_devices)
    # In a steady pipeline a device works for every request, so that its time for one is a sum.
    for i in range(n_operators):
        here = placement[program.unit[i]]
        load[here] += program.ms[i, here]
    # Devices as bits: a tensor counts once on each, however many readers it has there.
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
