"""Memory of devices: separate, or shared in a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.hardware.devices import DeviceSpec


@dataclass(frozen=True, eq=False)
class MemoryGroups:
    """Groups of devices that share memory, and the limit of each group.

    Attributes:
        of_device: (n_devices,) group of each device; without pools its own index.
        limits_bytes: (n_groups,) float64 bytes that fit, infinite without a limit.
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
        """(n_limited,) the groups that have a limit."""
        return np.flatnonzero(np.isfinite(self.limits_bytes))

    @cached_property
    def owner(self) -> IntArray:
        """(n_devices,) the first device of each device's group, its index in kernels."""
        _, first = np.unique(self.of_device, return_index=True)
        owner: IntArray = first[self.of_device].astype(np.int64)
        return owner

    @cached_property
    def shared(self) -> BoolArray:
        """(n_devices, n_devices) bool, whether two devices share memory."""
        return np.equal.outer(self.of_device, self.of_device)

    def members(self, group: int) -> IntArray:
        """Return the devices of a group."""
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
        """(k,) share of (k, n_devices) bytes that is beyond the limits."""
        excess = self.excess(used).sum(axis=1).astype(np.int64)
        shares: FloatArray = excess / np.maximum(used.astype(np.int64).sum(axis=1), 1)
        return shares
