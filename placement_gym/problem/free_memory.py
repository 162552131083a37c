"""Free memory masks: the devices that have room for the next unit, for policies that place in turn.

A placement that is made under them fits wherever units can be placed in this order without a gap
that none of the rest fills, as with a device that has no limit. Where no device has room, the mask
leaves the one with the most, so that there is always a choice.
"""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import BoolArray, FloatArray, IntArray
from placement_gym.problem.problem import Problem


def free_memory_mask(
    problem: Problem, assignment: IntArray, visited: BoolArray, unit: int
) -> BoolArray:
    """(n_devices,) bool, the devices that run a unit and have room for it.

    Args:
        problem: Units, devices and limits.
        assignment: (n_units,) devices; those of units that are not visited do not count.
        visited: (n_units,) bool, the units that are placed.
        unit: The unit to place; what it holds where it is now does not count.
    """
    counted = visited.astype(np.bool_)
    counted[unit] = False
    held = np.where(counted, problem.unit_bytes, 0.0)
    used = np.bincount(assignment, held, len(problem.devices))
    left = problem.limits_bytes - used @ problem.memory.shared - problem.unit_bytes[unit]
    return mask_by_room(problem.supported[unit], left)


def mask_by_room(supported: BoolArray, left: FloatArray) -> BoolArray:
    """(..., n_devices) bool, devices that run a unit and hold it, or the one with the most room.

    Args:
        supported: (..., n_devices) bool, devices that run the unit.
        left: (..., n_devices) memory that is left after the unit, negative beyond a limit.
    """
    fits = supported & (left >= 0.0)
    freest = np.where(supported, left, -np.inf).argmax(axis=-1)
    one = np.arange(left.shape[-1]) == freest[..., None]
    return np.where(fits.any(axis=-1, keepdims=True), fits, one)
