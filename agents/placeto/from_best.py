"""Episodes that start from the best placement known, at first of what a search begins with."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.search.begin_with import propose_first
from placement_gym.base.arrays import IntArray
from placement_gym.envs.wrappers import PerUnit


class FromBest(PerUnit):
    """``PerUnit`` whose episodes go on from the fastest placement so far.

    Before the first episode, and after every seed, the first placements are evaluated.

    Args:
        env: The environment to place in.
        begin_with: See ``agents.search.begin_with.propose_first``.
    """

    def __init__(self, env: gym.Env[Any, Any], begin_with: str) -> None:
        super().__init__(env, start="best")
        self.begin_with = begin_with

    def choose_start(self) -> IntArray:
        """See ``PerUnit``."""
        if self.best is None:
            for assignment in propose_first(self.base, self.begin_with):
                self.assignment = assignment
                measurement = self.base.evaluate(assignment)
                self.assignment = self.base.assignment
                self.update_best(measurement)
        return super().choose_start()
