"""Search without a network: hill climbing, annealing, cross-entropy, genetic.

Placements are evaluated in batches, so that a simulated environment answers many at once. Moves and
first placements are structured: runs of the topological order share a device, as what is cut
costs more than where a unit lies. ``learn`` goes on where it stopped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from agents.common.fixed import Fixed
from agents.static import saved
from placement_gym.arrays import FloatArray, IntArray
from placement_gym.env import placement_env
from placement_gym.errors import UserError
from placement_gym.patterns import random_blocks
from placement_gym.problem import Problem
from placement_gym.solvers.list_scheduling import heft, m_etf

EXCHANGES = 0.5
UNFIT = 1e-9


class Search(Fixed):
    """Predicts the fastest feasible placement it has seen.

    Args:
        env: Where placements are evaluated.
        seed: Of all that is drawn.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        self.base = placement_env(env)
        self.problem: Problem = self.base.problem
        super().__init__(self.problem.single(self.problem.reference_device))
        self.rng = np.random.default_rng(seed)
        self.best_speedup = 0.0
        self.evaluations = 0

    def learn(self, total_timesteps: int) -> Search:
        """Evaluate ``total_timesteps`` more placements."""
        end = self.evaluations + total_timesteps
        while self.evaluations < end:
            self.improve(end)
        return self

    def improve(self, end: int) -> None:
        """Evaluate one batch, up to ``end`` evaluations in all."""
        raise NotImplementedError

    def speedups(self, assignments: IntArray) -> FloatArray:
        """(k,) of (k, n_units) placements; what is infeasible is slower than all that is not."""
        speedup, feasible = self.base.backend.evaluate_batch(assignments)
        self.evaluations += len(assignments)
        reached = np.where(feasible, speedup, UNFIT)
        if feasible.any() and reached.max() > self.best_speedup:
            self.best_speedup = float(reached.max())
            self.assignment = assignments[reached.argmax()].copy()
        return reached

    def moved(self, assignment: IntArray) -> IntArray:
        """The placement with a run of units, short or long, on another device.

        Every other time that device gives a run as long in return, or what it has of it, so that
        full devices can exchange what they hold.
        """
        n, n_devices = self.problem.n_units, len(self.problem.devices)
        if n_devices == 1:
            return assignment
        length = int(np.ceil(n ** self.rng.random()))
        begin = max(int(self.rng.integers(1 - length, n)), 0)
        here = assignment[begin]
        there = (here + self.rng.integers(1, n_devices)) % n_devices
        result = assignment.copy()
        result[begin : begin + length] = there
        given = np.flatnonzero(assignment == there)
        if len(given) and self.rng.random() < EXCHANGES:
            first = self.rng.choice(given)
            mine = given[(given >= first) & (given < first + length)]
            result[mine] = here
        return self.problem.where_supported(result)


class Annealing(Search):
    """Takes a slower placement the more rarely the slower it is, and the later.

    A batch of moves is drawn from the placement of the time; they are judged in order, and the
    first that is taken ends the batch. With ``heat=(0, 0)`` it is hill climbing.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        horizon: Evaluations over which it cools down; None takes those of the first ``learn``.
        starts: (k, n_units) placements of which the fastest is the beginning; None draws one.
        heat: At the beginning and at the end, in log speed-up.
        batch: Moves that are evaluated together.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        horizon: int | None = None,
        starts: IntArray | None = None,
        heat: tuple[float, float] = (0.05, 0.0005),
        batch: int = 2,
    ) -> None:
        super().__init__(env, seed)
        self.horizon, self.heat, self.batch = horizon, heat, batch
        self.starts = random_blocks(self.problem, self.rng)[None] if starts is None else starts
        self.now: IntArray = self.starts[0]
        self.speedup = 0.0

    def learn(self, total_timesteps: int) -> Search:
        """Evaluate ``total_timesteps`` more placements."""
        self.horizon = self.horizon or total_timesteps
        return super().learn(total_timesteps)

    def improve(self, end: int) -> None:
        """One batch of moves."""
        if not self.speedup:
            tried = self.starts[: end - self.evaluations]
            reached = self.speedups(tried)
            self.now, self.speedup = tried[reached.argmax()], float(reached.max())
            return
        heat = self.temperature()
        k = min(self.batch, end - self.evaluations)
        tried = np.stack([self.moved(self.now) for _ in range(k)])
        for candidate, speedup in zip(tried, self.speedups(tried), strict=True):
            loss = np.log(self.speedup / speedup)
            if loss <= 0 or (heat > 0 and self.rng.random() < np.exp(-loss / heat)):
                self.now, self.speedup = candidate, float(speedup)
                break

    def temperature(self) -> float:
        """Falls by the same factor in equal times."""
        first, last = self.heat
        if not first:
            return 0.0
        passed = min(self.evaluations / (self.horizon or 1), 1.0)
        return float(first * (last / first) ** passed)


class CrossEntropy(Search):
    """Draws every unit's device from its share among the best of the last batch.

    Units in a run share the number that decides, so that neighbours with like shares go together,
    while each has its share. Runs of a placement are short or long.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        batch: Placements a round.
        elite: Share of them that the next round follows.
        smoothing: Weight of the old probabilities.
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
        """One round."""
        k = min(self.batch, end - self.evaluations)
        drawn = self.numbers(k)[:, :, None] > np.cumsum(self.shares, axis=1)
        tried = np.minimum(drawn.sum(axis=2), len(self.problem.devices) - 1)
        tried = np.stack([self.problem.where_supported(one) for one in tried])
        best = np.argsort(-self.speedups(tried), kind="stable")[: max(int(k * self.elite), 1)]
        counts = np.stack([(tried[best] == d).mean(axis=0) for d in range(self.shares.shape[1])], 1)
        self.shares = self.smoothing * self.shares + (1.0 - self.smoothing) * counts

    def numbers(self, k: int) -> FloatArray:
        """(k, n_units) uniform numbers, constant over runs."""
        n = self.problem.n_units
        begins = self.rng.random((k, n)) < n ** -self.rng.random((k, 1))
        begin = np.maximum.accumulate(np.where(begins, np.arange(n), 0), axis=1)
        return np.take_along_axis(self.rng.random((k, n)), begin, axis=1)


class Genetic(Search):
    """A population in which two parents, chosen by rank, cross at cuts of the topological order.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        population: Placements that live.
        batch: Children a round; the fastest of old and new live on.
        mutation: Probability that a child is moved too.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        population: int = 40,
        batch: int = 20,
        mutation: float = 0.7,
    ) -> None:
        super().__init__(env, seed)
        self.population, self.batch, self.mutation = population, batch, mutation
        self.living = np.empty((0, self.problem.n_units), dtype=np.int64)
        self.fitness = np.empty(0)

    def improve(self, end: int) -> None:
        """The first population, or one round of children."""
        left = end - self.evaluations
        if len(self.living) < self.population:
            k = min(self.population - len(self.living), left)
            born = np.stack([random_blocks(self.problem, self.rng) for _ in range(k)])
        else:
            born = np.stack([self.child() for _ in range(min(self.batch, left))])
        everyone = np.concatenate([self.living, born])
        fitness = np.concatenate([self.fitness, self.speedups(born)])
        best = np.argsort(-fitness, kind="stable")[: self.population]
        self.living, self.fitness = everyone[best], fitness[best]

    def child(self) -> IntArray:
        """Two runs of one parent's devices around one of the other's."""
        n = self.problem.n_units
        first, second = (self.living[self.parent()] for _ in range(2))
        begin, end = np.sort(self.rng.integers(0, n + 1, 2))
        child = first.copy()
        child[begin:end] = second[begin:end]
        return self.moved(child) if self.rng.random() < self.mutation else child

    def parent(self) -> int:
        """The better of two that are drawn."""
        return int(self.rng.integers(len(self.living), size=2).min())


def hill_climb(env: gym.Env[Any, Any], seed: int, **kwargs: Any) -> Annealing:
    """Annealing that never takes a slower placement."""
    return Annealing(env, seed, heat=(0.0, 0.0), **kwargs)


def annealing(env: gym.Env[Any, Any], seed: int, start: str = "random", **kwargs: Any) -> Annealing:
    """See ``Annealing``.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        start: ``"random"``; ``"best"``: the fastest of HEFT, m-ETF and every device alone, which
            are evaluated first; or the file of a placement.
        kwargs: As for ``Annealing``.

    Raises:
        ValueError: It is neither, or no placement's file.
        PlacementMismatchError: The placement was made for something else.
    """
    if start == "random":
        return Annealing(env, seed, **kwargs)
    if start != "best" and not Path(start).is_file():
        raise UserError(f"start must be 'random', 'best' or a placement's file, not {start!r}")
    starts = heuristics(env) if start == "best" else saved(env, seed, start).assignment[None]
    return Annealing(env, seed, starts=starts, **kwargs)


def heuristics(env: gym.Env[Any, Any]) -> IntArray:
    """(k, n_units) what list schedulers and every device alone propose."""
    base = placement_env(env)
    problem, costs = base.problem, base.cost_table()
    singles = [problem.single(device) for device in range(len(problem.devices))]
    return np.stack([heft(problem, costs), m_etf(problem, costs), *singles])
