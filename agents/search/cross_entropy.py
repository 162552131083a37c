"""The cross-entropy method on the devices of units."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.search.search import Search
from placement_gym.arrays import FloatArray


class CrossEntropy(Search):
    """Samples every unit's device from its frequencies among the best of the earlier batches.

    Consecutive units share the uniform number that is compared with their probabilities, so that
    units of similar probabilities are placed together. The lengths of these runs are random.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        batch: Placements per round.
        elite: Share of them whose frequencies update the probabilities.
        smoothing: Weight of the previous probabilities.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        batch: int = 100,
        elite: float = 0.1,
        smoothing: float = 0.7,
    ) -> None:
        super().__init__(env, seed)
        self.batch, self.elite, self.smoothing = batch, elite, smoothing
        supported = self.problem.supported.astype(np.float64)
        self.shares = supported / supported.sum(axis=1, keepdims=True)

    def improve(self, end: int) -> None:
        """Evaluate one round, and update the probabilities from its results."""
        k = min(self.batch, end - self.evaluations)
        above = self.draw_numbers(k)[:, :, None] > np.cumsum(self.shares, axis=1)
        drawn = np.minimum(above.sum(axis=2), len(self.problem.devices) - 1)
        tried, reached = self.evaluate(self.problem.where_supported(drawn))
        best = tried[np.argsort(-reached, kind="stable")[: max(int(k * self.elite), 1)]]
        counts = np.stack([(best == d).mean(axis=0) for d in range(self.shares.shape[1])], 1)
        self.shares = self.smoothing * self.shares + (1.0 - self.smoothing) * counts

    def draw_numbers(self, k: int) -> FloatArray:
        """(k, n_units) uniform random numbers, constant over runs of units."""
        n = self.problem.n_units
        begins = self.rng.random((k, n)) < n ** -self.rng.random((k, 1))
        begin = np.maximum.accumulate(np.where(begins, np.arange(n), 0), axis=1)
        return np.take_along_axis(self.rng.random((k, n)), begin, axis=1)
