"""A search over the noise of a list schedule: samples, and changes to the best of them."""

from __future__ import annotations

from typing import Any, Self

import gymnasium as gym
import numpy as np

from agents.about import check_pools
from agents.search.search import UNFIT, Search
from placement_gym.arrays import FloatArray, IntArray
from placement_gym.problem import assignment_hash
from placement_gym.solvers.decoder import Decoder
from placement_gym.solvers.list_sampling import (
    Noise,
    decode_noise,
    draw_noise,
    draw_prices,
    draw_windows_of_noise,
    silence_first,
    vary_prices,
)

PATIENCE = 20
"""Batches without any new placement after which the search ends."""
INHERITED = 0.8
"""Share of samples whose price of memory is near that of one of the fastest placements."""


class ListSearch(Search):
    """Samples list schedules, and rebuilds parts of the fastest placements so far.

    No placement is evaluated twice, so ``learn`` may end early on a small problem. Calling it again
    continues the search.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        batch: Placements that are evaluated together.
        changes: Share of a batch that changes earlier placements; 0 only samples.
        parents: Number of fastest placements that are changed.
    """

    name = "list-sampling"

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        batch: int = 20,
        changes: float = 0.5,
        parents: int = 4,
    ) -> None:
        super().__init__(env, seed)
        check_pools(self.name, self.problem, self.base.objective)
        self.batch, self.changes, self.n_parents = batch, changes, parents
        self.decoder = Decoder.of(self.problem, self.base.cost_table())
        self.tried: set[str] = set()
        self.parents = np.empty((0, self.problem.n_units), dtype=np.int64)
        self.prices, self.speedups = np.empty(0), np.empty(0)
        self.fruitless = 0

    def learn(self, total_timesteps: int) -> Self:
        """Evaluate ``total_timesteps`` more placements, or fewer if it finds no more."""
        end = self.evaluations + total_timesteps
        self.fruitless = 0
        while self.evaluations < end and self.fruitless < PATIENCE:
            self.improve(end)
        return self

    def improve(self, end: int) -> None:
        """Evaluate what is new in one batch, and keep the fastest feasible ones as parents."""
        placements, prices = self.propose(min(self.batch, end - self.evaluations))
        fresh = self.find_untried(placements)
        self.fruitless = 0 if fresh else self.fruitless + 1
        if fresh:
            self.tried.update(map(assignment_hash, placements[fresh]))
            self.keep_parents(*self.evaluate(placements[fresh]), prices[fresh])

    def propose(self, k: int) -> tuple[IntArray, FloatArray]:
        """(k, n_units) placements and the (k,) prices of memory that they were made with.

        The very first one is the list schedule without noise or price.
        """
        n_changed = int(k * self.changes) if len(self.parents) else 0
        chosen = self.rng.integers(max(len(self.parents), 1), size=k)
        prices = self.draw_prices(chosen)
        changed, sampled = np.split(prices, [n_changed])
        noise = draw_noise(self.decoder, self.rng, sampled)
        if not self.tried:
            silence_first(noise)
        parents = self.parents[chosen[:n_changed]]
        rebuilding = draw_windows_of_noise(self.decoder, parents, changed, self.rng)
        return np.concatenate([self.decode(rebuilding), self.decode(noise)]), prices

    def decode(self, noise: Noise) -> IntArray:
        """(k, n_units) the placements that noise decodes to."""
        return decode_noise(self.decoder, noise)

    def draw_prices(self, chosen: IntArray) -> FloatArray:
        """(k,) prices of memory, ``INHERITED`` of them near those of (k,) parents."""
        drawn = draw_prices(self.decoder, self.rng, len(chosen))
        if not len(self.parents):
            return drawn
        near = vary_prices(self.prices[chosen], self.rng)
        return np.where(self.rng.random(len(chosen)) < INHERITED, near, drawn)

    def find_untried(self, placements: IntArray) -> list[int]:
        """Indices of (k, n_units) placements that have not been tried yet, without repetitions."""
        keys = [assignment_hash(placement) for placement in placements]
        return [i for i, key in enumerate(keys) if key not in self.tried and key not in keys[:i]]

    def keep_parents(self, placements: IntArray, speedups: FloatArray, prices: FloatArray) -> None:
        """Keep the fastest feasible ones of these placements and the parents so far."""
        fits = speedups > UNFIT
        reached = np.concatenate([self.speedups, speedups[fits]])
        best = np.argsort(-reached, kind="stable")[: self.n_parents]
        self.speedups = reached[best]
        self.parents = np.concatenate([self.parents, placements[fits]])[best]
        self.prices = np.concatenate([self.prices, prices[fits]])[best]
