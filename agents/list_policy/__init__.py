"""List schedules whose weights a policy chooses: a placement of any graph in a millisecond."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from agents.list_policy.training import BestOfK, best_of_k_advantages, make_trainer
from agents.search import Search
from placement_gym.base import check_integer
from placement_gym.problem import assignment_hash
from placement_gym.solvers.list_policy import (
    MANY,
    ONE,
    ListPolicy,
    ListScheduler,
    compute_statistics,
    draw_actions,
)

__all__ = ["BestOfK", "ListPolicyAgent", "best_of_k_advantages", "make_trainer"]

SAMPLES = 100
LEARNED = 0.75
"""Share of the schedules whose weights the policy draws; the others' are random."""
COMPARED = 10
"""Best schedules, of which the first new one is evaluated."""


class ListPolicyAgent(Search):
    """Places by list schedules whose weights a policy chooses, trained on other problems.

    ``predict`` answers at once. Each evaluation of ``learn`` is the best of many schedules, by the
    environment's own costs, that has not been evaluated; nothing is learned from it.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        policy: The policy that draws schedules for ``learn``: ``"many"`` or ``"one"``, see
            ``solvers.list_policy.policy``, or a file.
        first: The policy that answers before ``learn``, with the same choices.
        samples: Schedules for each evaluation.

    Raises:
        UserError: There is no such policy, or an argument is out of range.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        policy: str | Path = MANY,
        first: str | Path = ONE,
        samples: int = SAMPLES,
    ) -> None:
        super().__init__(env, seed)
        check_integer("samples", samples, 2)
        self.samples, self.policy = samples, ListPolicy.load(policy)
        self.scheduler = ListScheduler(self.problem, self.make_simulator())
        self.statistics = compute_statistics(self.scheduler.view)
        self.tried: set[str] = set()
        action = ListPolicy.load(first).draw(self.statistics, 1, self.rng)
        self.assignment = self.scheduler.find_best(action, self.rng)[0][0].astype(np.int64)

    def improve(self, end: int) -> None:
        """Evaluate the best new one of many schedules, or the best if none is new."""
        n_learned = int(LEARNED * self.samples)
        drawn = self.policy.draw(self.statistics, n_learned, self.rng)
        others = draw_actions(self.rng, self.samples - n_learned)
        places, _ = self.scheduler.find_best(np.concatenate([drawn, others]), self.rng, COMPARED)
        new = (place for place in places if assignment_hash(place) not in self.tried)
        chosen = next(new, places[0])
        self.tried.add(assignment_hash(chosen))
        self.evaluate(chosen[None].astype(np.int64))
