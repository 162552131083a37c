"""Episodes that start from the best placement known, at first from the best of heuristics."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.search.starts import propose_starts
from placement_gym.arrays import IntArray
from placement_gym.wrappers import PerUnit


class FromHeuristics(PerUnit):
    """``PerUnit`` whose episodes go on from the fastest placement so far.

    Before the first episode, and after every seed, the placements of heuristics are evaluated.

    Args:
        env: The environment to place in.
        starts: See ``agents.search.starts.propose_starts``.
    """

    def __init__(self, env: gym.Env[Any, Any], starts: str = "heuristics") -> None:
        super().__init__(env, start="best")
        self.starts = starts

    def choose_start(self) -> IntArray:
        """See ``PerUnit``."""
        if self.best is None:
            proposed = propose_starts(self.base, self.starts)
            for assignment in [] if proposed is None else proposed:
                self.assignment = assignment
                measurement = self.base.evaluate(assignment)
                self.assignment = self.base.assignment
                self.update_best(measurement)
        return super().choose_start()
