"""Tensors that are larger than what a device allocates at once."""

from __future__ import annotations

from math import prod

import numpy as np

from placement_gym.base.arrays import BoolArray, FloatArray
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.units import Units
from placement_gym.hardware.devices import DeviceSpec

BYTES = {"f64": 8, "i64": 8, "u64": 8, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "u8": 1}
"""Bytes of an element; those of types that are not here are four."""


def fits_allocations(units: Units, device: DeviceSpec) -> BoolArray:
    """(n_units,) bool: the device allocates each tensor that the unit reads, makes or holds.

    A device that computes in f16 may store f32 in half of the bytes, so that only what never fits
    is excluded; a tensor that proves too large is refused by the device.
    """
    fits = np.ones(len(units), dtype=np.bool_)
    if device.allocation_bytes is None:
        return fits
    shrink = 2.0 if device.precision == "f16" else 1.0
    too_large = find_largest_bytes(units.graph) / shrink > device.allocation_bytes
    fits[units.of_operator[too_large]] = False
    return fits


def find_largest_bytes(graph: OpGraph) -> FloatArray:
    """(n_operators,) bytes of the largest tensor that each reads, makes, or holds as weights."""
    types = zip(graph.shapes, graph.element_types, strict=True)
    largest = np.array([prod(shape) * BYTES.get(kind, 4) for shape, kind in types], np.float64)
    state = 0 if graph.state_bytes is None else graph.state_bytes
    np.maximum(largest, graph.weight_bytes - state, out=largest)
    for operators, size_bytes in graph.copied:
        np.maximum.at(largest, list(operators), size_bytes)
    tensors = graph.tensors
    tensor, reader = tensors.readings()
    held = tensors.size_bytes if tensors.held_bytes is None else tensors.held_bytes
    np.maximum.at(largest, reader, held[tensor])
    return largest
