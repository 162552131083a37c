"""Types of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]

UInt8 = NDArray[np.uint8]
MAX_DEVICES = 256
"""Of a problem: kernels and hashes have eight bits for a device."""
UInt32 = NDArray[np.uint32]
Int32 = NDArray[np.int32]
