"""List sampling: the best of many list schedules with noise, and of changes to the best of them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.search import Search
from placement_gym.arrays import IntArray
from placement_gym.problem import assignment_hash
from placement_gym.solvers.decoder import Decoder
from placement_gym.solvers.list_sampling import (
    decode_noise,
    draw_noise,
    keep_where_room,
    list_sampling,
    rebuild_windows,
)

PATIENCE = 20
"""Batches without any new placement after which the search ends."""


class ListSampling(Search):
    """Samples list schedules, and changes the fastest placements so far.

    Half of the changes sample a window of the rank order anew, half move a run of units; both keep
    what has room. No placement is evaluated twice, so that ``learn`` may end early on a small
    problem.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        batch: Placements that are evaluated together.
        changes: Share of a batch that changes earlier placements; 0 only samples.
        parents: How many of the fastest placements are changed.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        batch: int = 20,
        changes: float = 0.5,
        parents: int = 4,
    ) -> None:
        super().__init__(env, seed)
        self.batch, self.changes, self.n_parents = batch, changes, parents
        self.decoder = Decoder.of(self.problem, self.base.cost_table())
        self.tried: set[str] = set()
        self.parents = np.empty((0, self.problem.n_units), dtype=np.int64)
        self.speedups = np.empty(0)

    def learn(self, total_timesteps: int) -> ListSampling:
        """Evaluate ``total_timesteps`` more placements, or all that it finds if they are fewer."""
        end = self.evaluations + total_timesteps
        fruitless = 0
        while self.evaluations < end and fruitless < PATIENCE:
            before = self.evaluations
            self.improve(end)
            fruitless = fruitless + 1 if self.evaluations == before else 0
        return self

    def improve(self, end: int) -> None:
        """Evaluate one batch of new placements and keep the fastest as parents."""
        fresh = self.leave_out_tried(self.propose(min(self.batch, end - self.evaluations)))
        if not len(fresh):
            return
        known = np.concatenate([self.parents, fresh])
        speedups = np.concatenate([self.speedups, self.evaluate(fresh)])
        best = np.argsort(-speedups, kind="stable")[: self.n_parents]
        self.parents, self.speedups = known[best], speedups[best]

    def propose(self, k: int) -> IntArray:
        """(k, n_units) placements; the very first is the list schedule without noise."""
        if not self.tried:
            return list_sampling(self.problem, self.base.cost_table(), self.rng, k)
        n_changed = int(k * self.changes)
        sampled = decode_noise(self.decoder, draw_noise(self.decoder, self.rng, k - n_changed))
        parents = self.parents[self.rng.integers(len(self.parents), size=n_changed)]
        rebuilt = rebuild_windows(self.decoder, parents[: n_changed // 2], self.rng)
        moved = [self.move_run(parent) for parent in parents[n_changed // 2 :]]
        wanted = np.array(moved, dtype=np.int64).reshape(-1, self.problem.n_units)
        return np.concatenate([sampled, rebuilt, keep_where_room(self.decoder, wanted)])

    def leave_out_tried(self, placements: IntArray) -> IntArray:
        """Those of (k, n_units) placements that have not been tried yet, each once."""
        fresh = []
        for placement in placements:
            key = assignment_hash(placement)
            if key not in self.tried:
                self.tried.add(key)
                fresh.append(placement)
        return np.array(fresh, dtype=np.int64).reshape(-1, placements.shape[1])
