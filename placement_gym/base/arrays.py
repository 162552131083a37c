"""Types of arrays, and rounding that gives equal numbers on all processors."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]

UInt8 = NDArray[np.uint8]
UInt32 = NDArray[np.uint32]
UInt64 = NDArray[np.uint64]
Int32 = NDArray[np.int32]

MAX_DEVICES = 256
"""Maximum number of devices: kernels and hashes store a device in eight bits."""
POWERS = np.array([float(f"1e{k}") for k in range(-323, 309)])
"""Powers of ten, rounded correctly, as ``10.0**k`` is not on all platforms."""


def round_significant(values: ArrayLike, digits: int) -> FloatArray:
    """Round numbers to at most 12 significant digits, with equal results on all processors.

    Exponentials and logarithms differ between processors in their last bit. Round them before they
    are used or hashed. Zeros, infinities and NaN are unchanged.
    """
    values = np.asarray(values, dtype=np.float64)
    regular = np.isfinite(values) & (np.abs(values) >= POWERS[digits])
    size = np.where(regular, np.abs(values), 1.0)
    unit = POWERS[np.searchsorted(POWERS, size, side="right") - digits]
    rounded: FloatArray = np.where(regular, np.sign(values) * np.rint(size / unit) * unit, values)
    return rounded + 0.0  # -0.0 becomes 0.0
