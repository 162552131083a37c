"""Devices with enough free memory for the next unit of a placement."""

from __future__ import annotations

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.problem.problem import Problem


def free_memory_mask(
    problem: Problem, assignment: IntArray, visited: BoolArray, unit: int
) -> BoolArray:
    """(n_devices,) bool, the devices that support a unit and have enough free memory.

    A placement that is made under these masks fits if there is a device without a limit; otherwise
    the units that come last may find no device with enough memory. The mask then leaves the one
    with the most.

    Args:
        problem: Units, devices and limits.
        assignment: (n_units,) devices; those of units that are not visited do not count.
        visited: (n_units,) bool, the units that are placed.
        unit: The unit to place; its bytes on its present device do not count.
    """
    others = visited.astype(np.bool_)
    others[unit] = False
    bytes_of_unit = np.where(others, problem.unit_bytes, 0.0)
    bytes_of_device = np.bincount(assignment, bytes_of_unit, len(problem.devices))
    # `shared` sums the devices of a memory pool, which have one limit together.
    free_bytes = (
        problem.limits_bytes - bytes_of_device @ problem.memory.shared - problem.unit_bytes[unit]
    )
    return find_fitting_devices(problem.supported[unit], free_bytes)


def find_fitting_devices(supported: BoolArray, free_bytes: FloatArray) -> BoolArray:
    """(..., n_devices) bool, devices with enough memory, or the one with the most if none has.

    Args:
        supported: (..., n_devices) bool, devices that run the unit.
        free_bytes: (..., n_devices) memory that is left after the unit, negative beyond a limit.
    """
    # A mask must allow something: where nothing fits, the device with the most free memory exceeds
    # its limit by the fewest bytes, which the reward of an infeasible placement reflects.
    fits = supported & (free_bytes >= 0.0)
    roomiest = np.where(supported, free_bytes, -np.inf).argmax(axis=-1)
    is_roomiest = np.arange(free_bytes.shape[-1]) == roomiest[..., None]
    return np.where(fits.any(axis=-1, keepdims=True), fits, is_roomiest)
