"""Actions that are weights of a list scheduler instead of a device for each unit."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from placement_gym.base.arrays import FloatArray
from placement_gym.base.errors import UserError
from placement_gym.solvers.list_policy.scheduler import N_WEIGHTS


def make_weights_space() -> spaces.Box:
    """The space of actions: for each weight a number from -1 to 1, see ``scheduler.SCALES``."""
    return spaces.Box(-1.0, 1.0, (N_WEIGHTS,), np.float32)


def read_weights(actions: ArrayLike, number: int = 1) -> FloatArray:
    """The (number, ``N_WEIGHTS``) argument of a ``ListScheduler``, from as many actions.

    Raises:
        UserError: They have another shape, or numbers that are not finite.
    """
    weights = np.asarray(actions, dtype=np.float64)
    if weights.shape != (number, N_WEIGHTS) or not np.isfinite(weights).all():
        raise UserError(f"an action is {N_WEIGHTS} numbers from -1 to 1, not {actions!r:.200}")
    return np.minimum(np.maximum(weights, -1.0), 1.0)
