"""An agent that always predicts the same placement."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base.arrays import IntArray
from placement_gym.envs.scaling import read_current_unit


class FixedPlacement:
    """Predicts the same placement for every observation.

    Args:
        assignment: (n_units,) device indices; or (width,) a row of all decisions, see
            ``placement_gym.problem.decisions``.
    """

    def __init__(self, assignment: IntArray) -> None:
        self.assignment = assignment

    def predict(
        self,
        observation: dict[str, NDArray[Any]],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[IntArray, Any]:
        """The placement; in an environment of one unit per step, the current unit's device."""
        if "current_unit" in observation:
            return self.assignment[read_current_unit(observation)[..., 0]], state
        if len(self.assignment) > observation["placement"].shape[-1]:
            return self.assignment.copy(), state
        action = np.zeros(observation["placement"].shape, dtype=np.int64)
        action[..., : len(self.assignment)] = self.assignment
        return action, state
