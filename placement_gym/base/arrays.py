"""Types of arrays, and rounding that makes numbers the same on every processor."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]

UInt8 = NDArray[np.uint8]
MAX_DEVICES = 256
"""Devices of a problem, at most: kernels and hashes have eight bits for a device."""
UInt32 = NDArray[np.uint32]
UInt64 = NDArray[np.uint64]
Int32 = NDArray[np.int32]

POWERS = np.array([float(f"1e{k}") for k in range(-323, 309)])
"""The powers of ten, each rounded correctly, which ``10.0**k`` is not on every platform."""


def round_significant(values: ArrayLike, digits: int) -> FloatArray:
    """Round numbers to significant digits.

    Exponentials and logarithms differ in their last bit between processors, whose vector
    instructions compute them by other formulas. Numbers that are rounded before they are used or
    hashed are the same everywhere; the rounding itself only divides and multiplies.

    Args:
        values: Any shape; zeros and numbers that are not finite stay as they are.
        digits: Number of digits kept, at most 12.
    """
    values = np.asarray(values, dtype=np.float64)
    regular = np.isfinite(values) & (np.abs(values) >= POWERS[digits])
    size = np.where(regular, np.abs(values), 1.0)
    unit = POWERS[np.searchsorted(POWERS, size, side="right") - digits]
    rounded: FloatArray = np.where(regular, np.sign(values) * np.rint(size / unit) * unit, values)
    return rounded + 0.0  # a negative zero becomes the other one
