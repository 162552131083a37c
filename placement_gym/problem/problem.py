"""The placement problem: units, devices, and the devices that support each unit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import (
    BoolArray,
    FloatArray,
    IntArray,
    UserError,
    format_bytes_apart,
    join_words,
)
from placement_gym.graph import Units
from placement_gym.hardware import DeviceSpec, is_testbed
from placement_gym.problem.memory import MemoryGroups, fits_allocations


class PlacementMismatchError(UserError):
    """A placement was made for another model, other units or other devices."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Units to place, the devices, and the devices that support each unit.

    An *assignment* is an (n_units,) int64 array of device indices.

    Attributes:
        units: The units to place.
        devices: The devices, in the order of their indices.
        supported: (n_units, n_devices) bool, whether the device may run the unit.
        operator_bytes: (n_operators,) memory of each operator; None takes the weights' bytes.
        capable: (n_units, n_devices) bool, ``supported`` without constraints; None if equal.
        max_submodels: Largest number of submodels of a placement; None for any number.

    Raises:
        ValueError: No device runs a unit, or no device runs all units.
    """

    units: Units
    devices: tuple[DeviceSpec, ...]
    supported: BoolArray
    operator_bytes: IntArray | None = None
    capable: BoolArray | None = None
    max_submodels: int | None = None

    def __post_init__(self) -> None:
        unsupported = np.flatnonzero(~self.supported.any(axis=1))
        if len(unsupported):
            raise UserError(
                f"no device runs unit {self.units.names[unsupported[0]]!r}: add a device that "
                "does, or, if it is a group of operators, pass granularity='op'"
            )
        if not self.runs_all.any():
            raise UserError(
                f"none of {self.device_names} runs the whole model: add one that does, "
                "it is the reference of every speed-up"
            )

    @cached_property
    def n_units(self) -> int:
        return len(self.units)

    @cached_property
    def device_names(self) -> tuple[str, ...]:
        return tuple(device.name for device in self.devices)

    @cached_property
    def testbed(self) -> bool:
        """True if two devices are one physical device."""
        return is_testbed(self.devices)

    @cached_property
    def runs_all(self) -> BoolArray:
        """(n_devices,) bool, whether it can run every unit, ignoring memory and constraints."""
        return np.array([column.all() for column in self.runs.T])

    @property
    def runs(self) -> BoolArray:
        """(n_units, n_devices) bool, whether the device can run the unit, ignoring constraints."""
        return self.supported if self.capable is None else self.capable

    @cached_property
    def reference_device(self) -> int:
        """The first device that can run the whole model, even if constraints exclude it."""
        return int(self.runs_all.argmax())

    def single(self, device: int) -> IntArray:
        """(n_units,) the assignment of every unit to one device."""
        return np.full(self.n_units, device, dtype=np.int64)

    @cached_property
    def unit_bytes(self) -> FloatArray:
        """(n_units,) float64 bytes that each unit takes on its device."""
        graph = self.units.graph
        operator_bytes = graph.weight_bytes if self.operator_bytes is None else self.operator_bytes
        return np.bincount(self.units.of_operator, operator_bytes, self.n_units).astype(np.float64)

    @cached_property
    def total_bytes(self) -> float:
        """Bytes of all units, at least 1."""
        return max(float(self.unit_bytes.sum()), 1.0)

    @cached_property
    def memory(self) -> MemoryGroups:
        """Groups of devices that share memory, and their limits."""
        return MemoryGroups.from_devices(self.devices, int(self.unit_bytes.sum()))

    @cached_property
    def limits_bytes(self) -> FloatArray:
        """(n_devices,) limit of each device or its whole pool, infinite without one."""
        limits: FloatArray = self.memory.limits_bytes[self.memory.of_device]
        return limits

    @cached_property
    def limit_shares(self) -> FloatArray:
        """(n_devices,) share of the model's bytes that fits, 1 without a limit."""
        return np.minimum(self.limits_bytes / self.total_bytes, 1.0)

    @cached_property
    def reported_bytes(self) -> FloatArray:
        """(n_devices,) memory that integrated devices report, not a limit; else infinite."""
        sizes = [device.reported_bytes for device in self.devices]
        return np.array([np.inf if size is None else size for size in sizes], dtype=np.float64)

    @cached_property
    def limited(self) -> bool:
        """True if any device has a memory limit."""
        return bool(np.isfinite(self.limits_bytes).any())

    @cached_property
    def binding(self) -> bool:
        """True if any device or pool is too small for the whole model."""
        return bool((self.limits_bytes < self.unit_bytes.sum()).any())

    @cached_property
    def tight_pools(self) -> tuple[str, ...]:
        """The shared memory pools that are too small for the whole model."""
        is_pool = self.memory.shared.sum(axis=1) > 1
        is_tight = is_pool & (self.limits_bytes < self.unit_bytes.sum())
        return tuple(dict.fromkeys(self.devices[i].memory_pool for i in np.flatnonzero(is_tight)))

    @cached_property
    def possible(self) -> BoolArray:
        """(n_units, n_devices) bool, whether the device supports the unit and could hold it."""
        fits: BoolArray = self.unit_bytes[:, None] <= self.limits_bytes
        return self.supported & fits

    @cached_property
    def supports_all(self) -> bool:
        """True if every device supports every unit."""
        return bool(self.supported.all())

    def with_limits(self, limits_bytes: FloatArray) -> Problem:
        """The problem with other limits, (n_devices,) bytes or infinite, and without pools."""
        limits = [int(limit) if np.isfinite(limit) else None for limit in limits_bytes.tolist()]
        devices = tuple(
            replace(device, memory_bytes=limit, weight_share=None, memory_pool="")
            for device, limit in zip(self.devices, limits, strict=True)
        )
        return replace(self, devices=devices)

    def check(self, assignments: IntArray) -> None:
        """Raise ``ValueError`` if (n_units,) or (k, n_units) device indices are invalid."""
        n_units, n_devices = self.supported.shape
        # As unsigned, negative numbers are large: one comparison checks both ends, which is faster.
        maximum = assignments.astype(np.uint64).max(initial=0)
        if assignments.shape[-1] != n_units or maximum >= n_devices:
            raise UserError(
                f"an assignment is {n_units} device indices from 0 to {n_devices - 1}, "
                f"not {assignments!r}"
            )

    def memory_bytes(self, assignment: NDArray[np.integer[Any]]) -> IntArray:
        """(n_devices,) bytes held on each device."""
        return np.bincount(assignment, self.unit_bytes, len(self.devices)).astype(np.int64)

    def infeasibility(self, assignment: IntArray) -> str:
        """Describe why an assignment is infeasible; empty if it is feasible."""
        # Submodels are counted only if a constraint limits them.
        self.check(assignment)
        error = self.support_error(assignment)
        if not error and self.max_submodels is not None:
            error = self.submodel_error(self.count_submodels(assignment))
        if error or not self.limited:
            return error
        return self.memory_error(self.memory_bytes(assignment))

    def support_error(self, assignment: NDArray[np.integer[Any]]) -> str:
        """Describe the first unsupported unit; empty if there is none."""
        if self.supports_all:
            return ""
        unsupported = np.flatnonzero(~self.supported[np.arange(self.n_units), assignment])
        if not len(unsupported):
            return ""
        unit, device = int(unsupported[0]), int(assignment[unsupported[0]])
        unit_name, device_name = self.units.names[unit], self.device_names[device]
        if self.runs[unit, device]:
            return f"a constraint keeps unit {unit_name!r} off {device_name}"
        if not fits_allocations(self.units, self.devices[device])[unit]:
            return (
                f"unit {unit_name!r} has a larger tensor than {device_name} allocates at once: "
                "set GPU_ENABLE_LARGE_ALLOCATIONS in the properties of a GPU"
            )
        return f"{device_name} does not support unit {unit_name!r}"

    def count_submodels(self, assignment: NDArray[np.integer[Any]]) -> int:
        """Count the submodels that a placement needs."""
        from placement_gym.graph import acyclic_submodels

        operator_devices = assignment[self.units.of_operator].astype(np.int64)
        return int(acyclic_submodels(self.units.graph, operator_devices).max()) + 1

    def submodel_error(self, n_submodels: int) -> str:
        """Describe that there are too many submodels; empty if there are not."""
        if self.max_submodels is None or n_submodels <= self.max_submodels:
            return ""
        return f"{n_submodels} submodels, and a constraint allows {self.max_submodels} at most"

    def memory_error(self, device_bytes: IntArray) -> str:
        """Describe the first limit that (n_devices,) bytes exceed; empty if there is none."""
        group_bytes, limits = self.memory.held(device_bytes), self.memory.limits_bytes
        full_groups = np.flatnonzero(group_bytes > limits)
        if not len(full_groups):
            return ""
        group = full_groups[0]
        held, limit = format_bytes_apart(group_bytes[group], limits[group])
        members = self.memory.members(group)
        names = join_words([self.device_names[device] for device in members])
        pool = self.devices[members[0]].memory_pool
        of = f"the limit of memory pool {pool!r}," if len(members) > 1 else "its limit of"
        return f"{names} would hold {held}, above {of} {limit}"

    def move_unsupported(self, assignment: IntArray) -> IntArray:
        """The assignment, with unsupported units moved to ``fallback``."""
        if self.supports_all:
            return assignment
        # One fallback for all heuristics: more of their placements are equal, and evaluated once.
        is_supported = self.supported[np.arange(self.n_units), assignment]
        return np.where(is_supported, assignment, self.fallback)

    @cached_property
    def fallback(self) -> IntArray:
        """(n_units,) the reference device, or else the first that supports the unit."""
        first_supported = self.supported.argmax(axis=1)
        return np.where(
            self.supported[:, self.reference_device], self.reference_device, first_supported
        )

    def transfers(self, assignment: IntArray) -> tuple[IntArray, IntArray]:
        """(n_transfers,) tensor and (n_transfers,) destination of each transfer."""
        tensors = self.units.quotient.tensors
        tensor, reader = tensors.readings()
        target = assignment[reader]
        crossing = assignment[tensors.source[tensor]] != target
        # A tensor moves once to a device with several readers.
        pairs = np.unique(np.stack([tensor[crossing], target[crossing]]), axis=1)
        return pairs[0], pairs[1]

    def traffic(self, assignment: IntArray) -> tuple[int, int]:
        """The number of transfers and their bytes."""
        tensor, _ = self.transfers(assignment)
        return len(tensor), int(self.units.quotient.tensors.size_bytes[tensor].sum())

    def fingerprint(self, by_name: bool = True) -> str:
        """Sixteen hex digits that identify the graph and its grouping; see ``OpGraph``."""
        parts = self.units.graph.fingerprint(by_name).encode() + self.units.of_operator.tobytes()
        return hashlib.sha256(parts).hexdigest()[:16]


def assignment_hash(assignment: NDArray[np.integer[Any]]) -> str:
    """Sixteen hex digits that identify an assignment."""
    # A byte holds a device, as there are at most `MAX_DEVICES`, 256.
    return hashlib.blake2b(assignment.astype(np.uint8).tobytes(), digest_size=8).hexdigest()


def parse_assignment(units: Mapping[str, str], problem: Problem) -> IntArray:
    """Return (n_units,) device indices from device names by unit.

    Raises:
        PlacementMismatchError: The problem has other units or devices.
    """
    index = {name: position for position, name in enumerate(problem.device_names)}
    unknown = sorted(set(units.values()) - set(index))
    if set(units) != set(problem.units.names) or unknown:
        raise PlacementMismatchError(
            f"the placement has {len(units)} units on {sorted(set(units.values()))}, "
            f"the environment {problem.n_units} on {list(index)}: "
            "make it with the same granularity, graph and devices"
        )
    return np.array([index[units[unit]] for unit in problem.units.names], dtype=np.int64)
