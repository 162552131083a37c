"""``solvers.search`` as an agent, which evaluates its proposals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import gymnasium as gym
import numpy as np

from agents.search.moves import Moves
from agents.search.search import Search
from placement_gym.base import IntArray, check_not_negative, now_s, parse_count
from placement_gym.envs import find_semantics
from placement_gym.problem import assignment_hash
from placement_gym.solvers.search import AnytimeSearch

N_TRUSTED = 20
"""Measured evaluations before moves are measured as well as proposals. Hand-tuned."""
MAX_ATTEMPTS = 20
"""Moves that are drawn to find a new one. Hand-tuned: around a local optimum most are old."""


class SearchAgent(Search):
    """Evaluates the proposals of ``AnytimeSearch`` under the environment's own schedule and costs.

    Where latencies are measured, the costs are a profile with errors, so after ``N_TRUSTED``
    evaluations every second one is a move from the fastest measured placement. No placement is
    evaluated twice: on a small problem ``learn`` may end early. Calling it again continues the
    search.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        seconds: ``learn`` ends after this wall time, without the compilation of kernels; None:
            no limit.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int, seconds: float | None = None) -> None:
        super().__init__(env, seed)
        if seconds is not None:
            check_not_negative("seconds", seconds)
        self.seconds = seconds
        self.search = AnytimeSearch(self.problem, self.make_simulator(), self.rng)
        self.proposals: Iterator[IntArray] | None = None
        # where latencies are simulated, moves would only repeat the search's own
        self.moves = None if find_semantics(self.base) else Moves(self.base, self.rng)
        self.tried: set[str] = set()

    def learn(self, total_timesteps: int) -> Self:
        """Evaluate ``total_timesteps`` more placements; fewer if there are no more, or no time."""
        total_timesteps = parse_count("total_timesteps", total_timesteps, 0)
        limit = self.evaluations + total_timesteps
        end = np.inf if self.seconds is None else now_s() + self.seconds
        # a time limit is part of the search: each call with one restarts it from the best
        # placements so far
        if self.proposals is None or self.seconds is not None:
            self.proposals = self.search.propose(end)
        while self.evaluations < limit and now_s() < end:
            placement = self.choose(self.proposals)
            if placement is None:
                break
            self.tried.add(assignment_hash(placement))
            self.evaluate(placement[None])
        return self

    def choose(self, proposals: Iterator[IntArray]) -> IntArray | None:
        """The (n_units,) placement to evaluate next; None if there is nothing new."""
        placement = None
        if self.evaluations >= N_TRUSTED and self.evaluations % 2:
            placement = self.move()
        if placement is None:
            placement = next((proposal for proposal in proposals if self.is_new(proposal)), None)
        return self.move() if placement is None else placement

    def move(self) -> IntArray | None:
        """A new placement, one move from the fastest one; None if none is found."""
        if self.moves is None:
            return None
        for _ in range(MAX_ATTEMPTS):
            (placement,) = self.moves.propose(self.assignment, 1)
            if self.is_new(placement):
                return placement
        return None

    def is_new(self, placement: IntArray) -> bool:
        """True if an (n_units,) placement has not been evaluated."""
        return assignment_hash(placement) not in self.tried
