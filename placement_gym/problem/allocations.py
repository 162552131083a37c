"""Tensors that are larger than what a device allocates at once."""

from __future__ import annotations

from math import prod

import numpy as np

from placement_gym.base import BoolArray, FloatArray
from placement_gym.graph import OpGraph, Units
from placement_gym.hardware import DeviceSpec

BYTES_OF_TYPE = {"f64": 8, "i64": 8, "u64": 8, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "u8": 1}
"""Bytes of an element by OpenVINO's name of its type; other types have four."""


def fits_allocations(units: Units, device: DeviceSpec) -> BoolArray:
    """(n_units,) bool: the device allocates each tensor that the unit reads, makes or holds.

    A device that computes in f16 may store f32 in half of the bytes: only tensors that never fit
    are excluded here, and the device itself refuses others.
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
    largest = np.array(
        [prod(shape) * BYTES_OF_TYPE.get(element_type, 4) for shape, element_type in types],
        np.float64,
    )
    # A state is stored in separate tensors, which no single allocation with the weights holds.
    state = 0 if graph.state_bytes is None else graph.state_bytes
    np.maximum(largest, graph.weight_bytes - state, out=largest)
    tensors = graph.tensors
    tensor, reader = tensors.readings()
    size_bytes = tensors.size_bytes if tensors.held_bytes is None else tensors.held_bytes
    np.maximum.at(largest, reader, size_bytes[tensor])
    return largest
