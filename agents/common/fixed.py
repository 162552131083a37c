"""The agent that has one answer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.arrays import IntArray


class Fixed:
    """Predicts one placement, whatever it sees.

    Args:
        assignment: (n_units,) device indices.
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
        """The placement, or the current unit's device where units are placed one by one."""
        if "current_unit" in observation:
            return self.assignment[observation["current_unit"][..., 0]], state
        action = np.zeros(observation["placement"].shape, dtype=np.int64)
        action[..., : len(self.assignment)] = self.assignment
        return action, state
