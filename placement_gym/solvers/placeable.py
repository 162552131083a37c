"""The part of a problem that solvers need, without the graph that its units come from."""

from __future__ import annotations

from typing import Protocol

from placement_gym.base.arrays import BoolArray, FloatArray
from placement_gym.hardware.memory_groups import MemoryGroups


class Placeable(Protocol):
    """Units on devices: a problem, or a part of one."""

    @property
    def n_units(self) -> int: ...

    @property
    def possible(self) -> BoolArray:
        """(n_units, n_devices) which device can run and hold which unit."""

    @property
    def unit_bytes(self) -> FloatArray:
        """(n_units,) memory of each unit."""

    @property
    def limits_bytes(self) -> FloatArray:
        """(n_devices,) bytes that fit, infinite without a limit."""

    @property
    def memory(self) -> MemoryGroups:
        """Which devices share memory, and the limits."""
