"""Simulated annealing and hill climbing."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.search.moves import Moves
from agents.search.search import INFEASIBLE_SPEEDUP, Search
from agents.search.starts import HEURISTICS, extend_starts, propose_starts
from placement_gym.base import IntArray, UserError, check_not_negative, parse_count
from placement_gym.problem import assignment_hash, random_blocks

MAX_ATTEMPTS = 5
"""Rounds in which moves are drawn to find new ones; then repeats are evaluated. Hand-tuned."""
TEMPERATURE = (0.01, 0.0005)
"""Initial and final temperature, in log speed-up. Hand-tuned."""
N_KICKS = 3
"""Random moves after a restart. Hand-tuned: enough that descent does not undo them all."""


class Annealing(Search):
    """Simulated annealing: accepts slower placements with a probability that falls over time.

    A batch has new moves from the current placement, of which the first acceptable one is accepted;
    moves also change priority and fusion if the environment has these decisions. After ``patience``
    evaluations without a new best placement, the search continues ``N_KICKS`` random moves away
    from the best one.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        start: See ``propose_starts``. The search begins at the fastest of these placements.
        horizon: Evaluations over which the temperature falls; None takes those of the first learn.
        temperature: Initial and final temperature, in log speed-up.
        batch: Moves that are evaluated together.
        patience: Evaluations without a new best placement before a restart.
    """

    joint = True

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        start: str = HEURISTICS,
        horizon: int | None = None,
        temperature: tuple[float, float] = TEMPERATURE,
        batch: int = 2,
        patience: int = 300,
    ) -> None:
        super().__init__(env, seed)
        self.horizon = None if horizon is None else parse_count("horizon", horizon, 1)
        if np.shape(temperature) != (2,):
            raise UserError(f"temperature is an initial and a final one, not {temperature!r:.200}")
        for value in temperature:
            check_not_negative("temperature", value)
        self.temperature = temperature
        self.batch = parse_count("batch", batch, 1)
        self.patience = parse_count("patience", patience, 1)
        starts = propose_starts(env, start)
        if starts is None:
            starts = random_blocks(self.problem, self.rng)[None]
        self.starts = extend_starts(self.base, starts)
        self.moves = Moves(self.base, self.rng)
        self.current: IntArray = self.starts[0]
        self.speedup = 0.0
        self.proposed_hashes: set[str] = set()
        self.record_speedup, self.record_at = 0.0, 0

    def learn(self, total_timesteps: int) -> Search:
        total_timesteps = parse_count("total_timesteps", total_timesteps, 0)
        self.horizon = self.horizon or total_timesteps
        return super().learn(total_timesteps)

    def improve(self, end: int) -> None:
        """Evaluate the starts, or one batch of moves."""
        if not self.speedup:
            placements, speedups = self.evaluate(self.starts[: end - self.evaluations])
            self.current, self.speedup = placements[speedups.argmax()], float(speedups.max())
            return
        placements, speedups = self.evaluate(self.propose(min(self.batch, end - self.evaluations)))
        # The first acceptable move is taken, as in sequential annealing, and the rest of the batch
        # is lost: simulating a batch takes little longer than simulating one placement.
        for candidate, speedup in zip(placements, speedups, strict=True):
            if self.accepts(float(speedup)):
                self.current, self.speedup = candidate, float(speedup)
                break
        self.restart_if_stuck()

    def propose(self, k: int) -> IntArray:
        """At most ``k`` moves from the current placement, if possible without repeats."""
        moves: dict[str, IntArray] = {}
        for _ in range(MAX_ATTEMPTS):
            for move in self.moves.propose(self.current, k - len(moves)):
                key = assignment_hash(move)
                if key not in self.proposed_hashes:
                    moves[key] = move
            if len(moves) == k:
                break
        self.proposed_hashes.update(moves)
        return np.stack(list(moves.values())) if moves else self.moves.propose(self.current, k)

    def accepts(self, speedup: float) -> bool:
        """Decide whether the search continues from a placement with this speed-up."""
        # Metropolis on log speed-ups, so one temperature fits fast and slow models.
        loss, temperature = np.log(self.speedup / speedup), self.find_temperature()
        return bool(
            loss <= 0 or (temperature > 0 and self.rng.random() < np.exp(-loss / temperature))
        )

    def restart_if_stuck(self) -> None:
        """Continue from a changed copy of the best placement after ``patience`` evaluations."""
        if self.best_speedup > self.record_speedup:
            self.record_speedup, self.record_at = self.best_speedup, self.evaluations
        elif self.evaluations - self.record_at >= self.patience:
            self.record_at = self.evaluations
            # from an infeasible speed-up, any move is accepted
            self.current, self.speedup = self.assignment, INFEASIBLE_SPEEDUP
            for _ in range(N_KICKS):
                self.current = self.moves.change(self.current, 1)[0]

    def find_temperature(self) -> float:
        """The current temperature, which falls exponentially."""
        start, final = self.temperature
        if not start:
            return 0.0
        progress = min(self.evaluations / (self.horizon or 1), 1.0)
        return float(start * (final / start) ** progress)


def hill_climb(
    env: gym.Env[Any, Any],
    seed: int,
    start: str = HEURISTICS,
    batch: int = 2,
    patience: int = 300,
) -> Annealing:
    """Make annealing that never accepts a slower placement, except at restarts.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        start: See ``propose_starts``.
        batch: Moves that are evaluated together.
        patience: Evaluations without a new best placement before a restart.
    """
    return Annealing(env, seed, start, None, (0.0, 0.0), batch, patience)
