"""Memory: groups of devices that share it, and tensors that are too large for one allocation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.graph import OpGraph, Units
from placement_gym.hardware import DeviceSpec

BYTES_OF_TYPE = {"f64": 8, "i64": 8, "u64": 8, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "u8": 1}
"""Bytes of an element by OpenVINO's type name; other types have four."""


@dataclass(frozen=True, eq=False)
class MemoryGroups:
    """Groups of devices that share memory, and the limit of each group.

    Attributes:
        of_device: (n_devices,) group of each device; without pools, the device.
        limits_bytes: (n_groups,) float64 limits, infinite without one.
    """

    of_device: IntArray
    limits_bytes: FloatArray

    @classmethod
    def from_devices(cls, devices: Sequence[DeviceSpec], model_bytes: int) -> MemoryGroups:
        """Group devices by ``memory_pool``; a limit may be a share of ``model_bytes``."""
        keys = [device.memory_pool or (index,) for index, device in enumerate(devices)]
        distinct = list(dict.fromkeys(keys))
        of_device = np.array([distinct.index(key) for key in keys], dtype=np.int64)
        limits = np.full(len(distinct), np.inf)
        np.minimum.at(limits, of_device, [device.limit_bytes(model_bytes) for device in devices])
        return cls(of_device, limits)

    @cached_property
    def limited(self) -> IntArray:
        """(n_limited,) groups with a limit."""
        return np.flatnonzero(np.isfinite(self.limits_bytes))

    @cached_property
    def owner(self) -> IntArray:
        """(n_devices,) the first device of each device's group, which stands for it in kernels."""
        _, first = np.unique(self.of_device, return_index=True)
        owner: IntArray = first[self.of_device].astype(np.int64)
        return owner

    @cached_property
    def shared(self) -> BoolArray:
        """(n_devices, n_devices) bool, whether two devices share memory."""
        return np.equal.outer(self.of_device, self.of_device)

    def members(self, group: int) -> IntArray:
        """The devices of a group."""
        return np.flatnonzero(self.of_device == group)

    def held(self, used: NDArray[np.number]) -> FloatArray:
        """(..., n_groups) bytes in each group, from (..., n_devices) bytes on each device."""
        if len(self.limits_bytes) == len(self.of_device):
            return used.astype(np.float64)
        member = self.of_device[:, None] == np.arange(len(self.limits_bytes))
        group_bytes: FloatArray = used.astype(np.float64) @ member
        return group_bytes

    def excess(self, used: NDArray[np.number]) -> FloatArray:
        """(..., n_groups) bytes beyond the limits, from (..., n_devices) bytes on each device."""
        excess: FloatArray = np.maximum(self.held(used) - self.limits_bytes, 0.0)
        return excess

    def excess_shares(self, used: NDArray[np.number]) -> FloatArray:
        """(k,) share of (k, n_devices) bytes beyond the limits."""
        excess = self.excess(used).sum(axis=1).astype(np.int64)
        shares: FloatArray = excess / np.maximum(used.astype(np.int64).sum(axis=1), 1)
        return shares


def fits_allocations(units: Units, device: DeviceSpec) -> BoolArray:
    """(n_units,) bool, whether the device can allocate every tensor that the unit touches.

    A device that computes in f16 may store f32 in half the bytes: only tensors that never fit are
    excluded here.
    """
    fits = np.ones(len(units), dtype=np.bool_)
    if device.allocation_bytes is None:
        return fits
    shrink = 2.0 if device.precision == "f16" else 1.0
    too_large = find_largest_bytes(units.graph) / shrink > device.allocation_bytes
    fits[units.of_operator[too_large]] = False
    return fits


def find_largest_bytes(graph: OpGraph) -> FloatArray:
    """(n_operators,) bytes of the largest tensor that each reads, writes or holds as weights."""
    types = zip(graph.shapes, graph.element_types, strict=True)
    largest = np.array(
        [prod(shape) * BYTES_OF_TYPE.get(element_type, 4) for shape, element_type in types],
        np.float64,
    )
    # States are allocated apart from weights.
    state = 0 if graph.state_bytes is None else graph.state_bytes
    np.maximum(largest, graph.weight_bytes - state, out=largest)
    tensors = graph.tensors
    tensor, reader = tensors.readings()
    size_bytes = tensors.size_bytes if tensors.held_bytes is None else tensors.held_bytes
    np.maximum.at(largest, reader, size_bytes[tensor])
    return largest
