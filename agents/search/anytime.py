"""The search of ``solvers.search`` as an agent: it evaluates what that proposes."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any, Self

import gymnasium as gym
import numpy as np

from agents.search.moves import Moves
from agents.search.search import Search
from placement_gym.base.arguments import check_integer, check_not_negative
from placement_gym.base.arrays import IntArray
from placement_gym.envs.placement_env import find_semantics
from placement_gym.problem.costs.semantics import parse_schedule
from placement_gym.problem.problem import assignment_hash
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.search import AnytimeSearch

TRUSTED = 20
"""Measured evaluations of what the profile says is fast, before moves are measured as well."""
ATTEMPTS = 20
"""Moves that are tried for one that has not been evaluated."""


class SearchAgent(Search):
    """Evaluates what ``AnytimeSearch`` proposes under the environment's own schedule and costs.

    Where latencies are measured, costs are a profile, which is wrong here and there: after the
    first evaluations, every second one is a move from the fastest measured placement. No placement
    is evaluated twice, so ``learn`` may end early on a small problem. Calling it again continues
    the search.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        seconds: ``learn`` ends after this wall time; None: no limit.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int, seconds: float | None = None) -> None:
        super().__init__(env, seed)
        if seconds is not None:
            check_not_negative("seconds", seconds)
        self.seconds = seconds
        simulated = find_semantics(self.base)
        semantics = simulated or parse_schedule("serial", self.base.objective)
        simulator = Simulator(self.problem.units, self.base.cost_table(), semantics)
        self.search = AnytimeSearch(self.problem, simulator, self.rng)
        self.proposals: Iterator[IntArray] | None = None
        self.moves = None if simulated else Moves(self.base, self.rng)
        self.tried: set[str] = set()

    def learn(self, total_timesteps: int) -> Self:
        """Evaluate ``total_timesteps`` more placements, or as many as it finds and has time for.

        Raises:
            UserError: ``total_timesteps`` is not an integer.
        """
        check_integer("total_timesteps", total_timesteps, 0)
        last = self.evaluations + total_timesteps
        end = np.inf if self.seconds is None else perf_counter() + self.seconds
        if self.proposals is None or self.seconds is not None:
            self.proposals = self.search.propose(end)
        while self.evaluations < last and perf_counter() < end:
            placement = self.choose(self.proposals)
            if placement is None:
                break
            self.tried.add(assignment_hash(placement))
            self.evaluate(placement[None])
        return self

    def choose(self, proposals: Iterator[IntArray]) -> IntArray | None:
        """The (n_units,) placement to evaluate next; None if there is nothing new."""
        moves = self.moves if self.evaluations >= TRUSTED and self.evaluations % 2 else None
        found = None if moves is None else self.move(moves)
        if found is None:
            found = next((one for one in proposals if self.is_new(one)), None)
        return self.move(self.moves) if found is None and self.moves is not None else found

    def move(self, moves: Moves) -> IntArray | None:
        """A new placement that is a move away from the fastest one so far."""
        for _ in range(ATTEMPTS):
            (placement,) = moves.propose(self.assignment, 1)
            if self.is_new(placement):
                return placement
        return None

    def is_new(self, placement: IntArray) -> bool:
        """True if an (n_units,) placement has not been evaluated."""
        return assignment_hash(placement) not in self.tried
