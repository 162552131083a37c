"""Bytes that placements hold on each device."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.base.arrays import FloatArray, UInt8


@njit(cache=True, nogil=True)
def held_bytes(placements: UInt8, unit_bytes: FloatArray, n_devices: int) -> FloatArray:
    """(k, n_devices) bytes of weights on each device, for (k, n_units) uint8 placements."""
    held = np.zeros((len(placements), n_devices))
    for k in range(len(placements)):
        for unit in range(len(unit_bytes)):
            held[k, placements[k, unit]] += unit_bytes[unit]
    return held
