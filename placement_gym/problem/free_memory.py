"""Masks of devices with enough free memory for the next unit of a placement."""

from __future__ import annotations

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.problem.problem import Problem


def free_memory_mask(
    problem: Problem, assignment: IntArray, visited: BoolArray, unit: int
) -> BoolArray:
    """(n_devices,) bool, the devices that support a unit and have enough free memory.

    If no device has enough, the one with the most is allowed; the last units of a placement may
    thus exceed a limit unless some device has none.

    Args:
        problem: Units, devices and limits.
        assignment: (n_units,) devices.
        visited: (n_units,) bool, the units that take memory.
        unit: The unit to place; what it takes on its present device does not count.
    """
    others = visited.astype(np.bool_)
    others[unit] = False
    bytes_of_unit = np.where(others, problem.unit_bytes, 0.0)
    bytes_of_device = np.bincount(assignment, bytes_of_unit, len(problem.devices))
    # `shared` sums over the devices of a pool, which have one limit.
    free_bytes = (
        problem.limits_bytes - bytes_of_device @ problem.memory.shared - problem.unit_bytes[unit]
    )
    return find_fitting_devices(problem.supported[unit], free_bytes)


def find_fitting_devices(supported: BoolArray, free_bytes: FloatArray) -> BoolArray:
    """(..., n_devices) bool, devices with enough memory, or the one with the most if none has.

    Args:
        supported: (..., n_devices) bool, devices that run the unit.
        free_bytes: (..., n_devices) memory left after the unit, negative beyond a limit.
    """
    # The device with the most memory exceeds its limit least, for which the penalty is smallest.
    fits = supported & (free_bytes >= 0.0)
    roomiest = np.where(supported, free_bytes, -np.inf).argmax(axis=-1)
    is_roomiest = np.arange(free_bytes.shape[-1]) == roomiest[..., None]
    return np.where(fits.any(axis=-1, keepdims=True), fits, is_roomiest)
