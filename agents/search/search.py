"""The base class of searches: batches of placements, and the best placement so far."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.static import BestEvaluated
from placement_gym.base import FloatArray, IntArray, parse_count
from placement_gym.envs import find_semantics
from placement_gym.problem.costs import parse_schedule
from placement_gym.schedules import Simulator

INFEASIBLE_SPEEDUP = 1e-9
"""Speed-up of an infeasible placement: below every feasible one, and with a logarithm."""


class Search(BestEvaluated):
    """Predicts the fastest feasible placement of its evaluations.

    Calling ``learn`` again continues the search.

    Args:
        env: The environment that evaluates placements, and may repair them.
        seed: Seed of all random numbers.
    """

    joint: bool = False
    """Whether it makes all decisions of an environment, not only the placement."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        super().__init__(env, self.joint)
        self.problem = self.base.problem
        self.rng = np.random.default_rng(seed)
        self.evaluations = 0

    def learn(self, total_timesteps: int) -> Search:
        """Evaluate ``total_timesteps`` more placements."""
        total_timesteps = parse_count("total_timesteps", total_timesteps, 0)
        end = self.evaluations + total_timesteps
        while self.evaluations < end:
            self.improve(end)
        return self

    def make_simulator(self) -> Simulator:
        """Make a simulator of the environment's schedule and costs, serial if it is measured."""
        semantics = find_semantics(self.base) or parse_schedule("serial", self.base.objective)
        return Simulator(self.problem.units, self.base.cost_table(), semantics)

    def improve(self, end: int) -> None:
        """Evaluate one batch, up to ``end`` evaluations in total."""
        raise NotImplementedError

    def evaluate(self, assignments: IntArray) -> tuple[IntArray, FloatArray]:
        """Evaluate (k, n_units) placements, which the environment may repair.

        Returns:
            The (k, n_units) placements that were evaluated, and their (k,) speed-ups,
            ``INFEASIBLE_SPEEDUP`` for infeasible ones.
        """
        placements, batch = self.base.evaluate_batch(assignments)
        self.evaluations += len(placements)
        speedups = np.where(batch.feasible, batch.speedup, INFEASIBLE_SPEEDUP)
        if batch.feasible.any():
            self.keep(placements[speedups.argmax()], float(speedups.max()))
        return placements, speedups
