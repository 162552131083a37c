"""The base of searches whose placements are proposed by a solver."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np

from agents.about import check_pools
from agents.search.search import UNFIT, Search
from placement_gym.solvers.proposals import Proposals


class ProposalSearch(Search):
    """Evaluates what a solver proposes, and returns latencies relative to the reference's.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        horizon: Number of evaluations over which the solver's temperature falls; None takes that
            of the first ``learn``.
        time_limit_s: ``learn`` ends after this time, checked between batches; None: no limit.
    """

    name: str

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        horizon: int | None = None,
        time_limit_s: float | None = None,
    ) -> None:
        super().__init__(env, seed)
        check_pools(self.name, self.problem, self.base.objective)
        self.horizon, self.time_limit_s = horizon, time_limit_s
        self.proposals: Proposals | None = None
        self.proposed = np.empty((0, self.problem.n_units), dtype=np.int64)
        self.latencies = np.empty(0)

    def propose(self, horizon: int) -> Proposals:
        """Begin the solver's search."""
        raise NotImplementedError

    def learn(self, total_timesteps: int) -> ProposalSearch:
        """Evaluate ``total_timesteps`` more placements, or as many as the time allows."""
        end = self.evaluations + total_timesteps
        stop = np.inf if self.time_limit_s is None else perf_counter() + self.time_limit_s
        if self.proposals is None:
            self.proposals = self.propose(self.horizon or total_timesteps)
            self.proposed = next(self.proposals)
        while self.evaluations < end and perf_counter() < stop:
            self.improve(end)
        return self

    def improve(self, end: int) -> None:
        """Evaluate what is proposed, or as much of it as ``end`` allows."""
        assert self.proposals is not None
        if len(self.latencies) == len(self.proposed):
            self.proposed, self.latencies = self.proposals.send(self.latencies), np.empty(0)
        waiting = self.proposed[len(self.latencies) :][: end - self.evaluations]
        _, speedup = self.evaluate(waiting)
        latencies = np.where(speedup > UNFIT, 1.0 / speedup, np.inf)
        self.latencies = np.concatenate([self.latencies, latencies])
