"""Simulated annealing and hill climbing."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.search.moves import Moves
from agents.search.search import UNFIT, Search
from agents.search.starts import HEURISTICS, extend_starts, propose_starts
from placement_gym.base.arguments import check_integer
from placement_gym.base.arrays import IntArray
from placement_gym.problem.patterns import random_blocks
from placement_gym.problem.problem import assignment_hash

ATTEMPTS = 5
KICKS = 3


class Annealing(Search):
    """Simulated annealing: accepts slower placements with a probability that falls over time.

    Where an environment leaves priority or fusion open, moves change these, too.

    Each batch consists of new moves from the current placement, the first of which that passes is
    accepted. After ``patience`` evaluations without a new best placement, the search continues from
    a copy of the best one after ``KICKS`` random moves. ``temperature=(0, 0)`` makes it hill
    climbing.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        horizon: Number of evaluations over which the temperature falls; None takes that of the
            first ``learn``.
        starts: (k, n_units) placements, the fastest of which the search begins with; None samples
            one.
        temperature: At the beginning and at the end, in log speed-up.
        batch: Moves that are evaluated together.
        patience: Evaluations without a new best placement before a restart.
    """

    joint = True

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        horizon: int | None = None,
        starts: IntArray | None = None,
        temperature: tuple[float, float] = (0.01, 0.0005),
        batch: int = 2,
        patience: int = 300,
    ) -> None:
        super().__init__(env, seed)
        self.horizon, self.temperature = horizon, temperature
        self.batch, self.patience = batch, patience
        starts = random_blocks(self.problem, self.rng)[None] if starts is None else starts
        self.starts = extend_starts(self.base, starts)
        self.moves = Moves(self.base, self.rng)
        self.now: IntArray = self.starts[0]
        self.speedup = 0.0
        self.seen: set[str] = set()
        self.record, self.record_at = 0.0, 0

    def learn(self, total_timesteps: int) -> Search:
        """Evaluate ``total_timesteps`` more placements; see ``Search.learn``."""
        check_integer("total_timesteps", total_timesteps, 0)
        self.horizon = self.horizon or total_timesteps
        return super().learn(total_timesteps)

    def improve(self, end: int) -> None:
        """Evaluate the starts, or one batch of moves."""
        if not self.speedup:
            tried, reached = self.evaluate(self.starts[: end - self.evaluations])
            self.now, self.speedup = tried[reached.argmax()], float(reached.max())
            return
        tried, reached = self.evaluate(self.propose(min(self.batch, end - self.evaluations)))
        for candidate, speedup in zip(tried, reached, strict=True):
            if self.accepts(float(speedup)):
                self.now, self.speedup = candidate, float(speedup)
                break
        self.restart_if_stuck()

    def propose(self, k: int) -> IntArray:
        """At most ``k`` moves from the current placement, new ones if there are any."""
        new: dict[str, IntArray] = {}
        for _ in range(ATTEMPTS):
            for one in self.moves.propose(self.now, k - len(new)):
                key = assignment_hash(one)
                if key not in self.seen:
                    new[key] = one
            if len(new) == k:
                break
        self.seen.update(new)
        return np.stack(list(new.values())) if new else self.moves.propose(self.now, k)

    def accepts(self, speedup: float) -> bool:
        """Decide if the search continues from a placement with this speed-up."""
        loss, now = np.log(self.speedup / speedup), self.find_temperature()
        return bool(loss <= 0 or (now > 0 and self.rng.random() < np.exp(-loss / now)))

    def restart_if_stuck(self) -> None:
        """Continue from a changed copy of the best placement after ``patience`` evaluations."""
        if self.best_speedup > self.record:
            self.record, self.record_at = self.best_speedup, self.evaluations
        elif self.evaluations - self.record_at >= self.patience:
            self.record_at = self.evaluations
            self.now, self.speedup = self.assignment, UNFIT
            for _ in range(KICKS):
                self.now = self.moves.change(self.now, 1)[0]

    def find_temperature(self) -> float:
        """The current temperature; it falls exponentially."""
        first, last = self.temperature
        if not first:
            return 0.0
        passed = min(self.evaluations / (self.horizon or 1), 1.0)
        return float(first * (last / first) ** passed)


def annealing(
    env: gym.Env[Any, Any], seed: int, start: str = HEURISTICS, **kwargs: Any
) -> Annealing:
    """Make simulated annealing; see ``Annealing``.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        start: See ``propose_starts``.
        kwargs: Arguments of ``Annealing``.

    Raises:
        UserError: There is no such start.
        PlacementMismatchError: The placement was made for something else.
    """
    return Annealing(env, seed, starts=propose_starts(env, start), **kwargs)


def hill_climb(
    env: gym.Env[Any, Any], seed: int, start: str = HEURISTICS, **kwargs: Any
) -> Annealing:
    """Make annealing that never accepts a slower placement, restarts aside; see ``annealing``."""
    return annealing(env, seed, start, temperature=(0.0, 0.0), **kwargs)
