"""Search without a network: hill climbing, annealing, cross-entropy, genetic.

Placements are evaluated in batches, which a simulated environment computes at once. Moves and first
placements are structured: consecutive units of the topological order share a device, because
transfers cost more than the choice of a single unit's device. Calling ``learn`` again continues the
search.
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
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
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
        """Evaluate one batch, up to ``end`` evaluations in total."""
        raise NotImplementedError

    def evaluate(self, assignments: IntArray) -> FloatArray:
        """(k,) speed-ups of (k, n_units) placements; infeasible ones get ``UNFIT``."""
        speedup, feasible = self.base.backend.evaluate_batch(assignments)
        self.evaluations += len(assignments)
        reached = np.where(feasible, speedup, UNFIT)
        if feasible.any() and reached.max() > self.best_speedup:
            self.best_speedup = float(reached.max())
            self.assignment = assignments[reached.argmax()].copy()
        return reached

    def move_run(self, assignment: IntArray) -> IntArray:
        """Move a run of consecutive units, of random length, to another device.

        With probability ``EXCHANGES`` units of that device within a run of equal length move back,
        so that full devices can exchange units.
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
    """Simulated annealing: accepts slower placements with a probability that falls over time.

    Each batch samples moves of the current placement and accepts the first that passes, in order.
    ``heat=(0, 0)`` makes it hill climbing.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        horizon: Evaluations over which it cools down; None takes those of the first ``learn``.
        starts: (k, n_units) placements, of which the fastest is the first; None samples one.
        heat: Temperature at the beginning and at the end, in log speed-up.
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
        """Evaluate one batch of moves."""
        if not self.speedup:
            tried = self.starts[: end - self.evaluations]
            reached = self.evaluate(tried)
            self.now, self.speedup = tried[reached.argmax()], float(reached.max())
            return
        heat = self.temperature()
        k = min(self.batch, end - self.evaluations)
        tried = np.stack([self.move_run(self.now) for _ in range(k)])
        for candidate, speedup in zip(tried, self.evaluate(tried), strict=True):
            loss = np.log(self.speedup / speedup)
            if loss <= 0 or (heat > 0 and self.rng.random() < np.exp(-loss / heat)):
                self.now, self.speedup = candidate, float(speedup)
                break

    def temperature(self) -> float:
        """The current temperature; it falls exponentially."""
        first, last = self.heat
        if not first:
            return 0.0
        passed = min(self.evaluations / (self.horizon or 1), 1.0)
        return float(first * (last / first) ** passed)


class CrossEntropy(Search):
    """Samples every unit's device from its frequencies among the best of the earlier batches.

    Consecutive units share the uniform number that is compared with their probabilities, so that
    units of similar probabilities are placed together. The lengths of these runs are random.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        batch: Placements per round.
        elite: Share of them whose frequencies update the probabilities.
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
        """Evaluate one round and update the probabilities."""
        k = min(self.batch, end - self.evaluations)
        above = self.draw_numbers(k)[:, :, None] > np.cumsum(self.shares, axis=1)
        tried = np.minimum(above.sum(axis=2), len(self.problem.devices) - 1)
        tried = np.stack([self.problem.where_supported(one) for one in tried])
        best = np.argsort(-self.evaluate(tried), kind="stable")[: max(int(k * self.elite), 1)]
        counts = np.stack([(tried[best] == d).mean(axis=0) for d in range(self.shares.shape[1])], 1)
        self.shares = self.smoothing * self.shares + (1.0 - self.smoothing) * counts

    def draw_numbers(self, k: int) -> FloatArray:
        """(k, n_units) uniform random numbers, constant over runs of units."""
        n = self.problem.n_units
        begins = self.rng.random((k, n)) < n ** -self.rng.random((k, 1))
        begin = np.maximum.accumulate(np.where(begins, np.arange(n), 0), axis=1)
        return np.take_along_axis(self.rng.random((k, n)), begin, axis=1)


class Genetic(Search):
    """A genetic algorithm: parents are chosen by rank and crossed at cuts of the topological order.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        population: Size of the population.
        batch: Children per round; the fastest of population and children survive.
        mutation: Probability that a child is mutated by a move, too.
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
        """Evaluate the first population, or one round of children."""
        left = end - self.evaluations
        if len(self.living) < self.population:
            k = min(self.population - len(self.living), left)
            born = np.stack([random_blocks(self.problem, self.rng) for _ in range(k)])
        else:
            born = np.stack([self.make_child() for _ in range(min(self.batch, left))])
        everyone = np.concatenate([self.living, born])
        fitness = np.concatenate([self.fitness, self.evaluate(born)])
        best = np.argsort(-fitness, kind="stable")[: self.population]
        self.living, self.fitness = everyone[best], fitness[best]

    def make_child(self) -> IntArray:
        """Make a child: one parent's devices, with an interval of the other's."""
        n = self.problem.n_units
        first, second = (self.living[self.choose_parent()] for _ in range(2))
        begin, end = np.sort(self.rng.integers(0, n + 1, 2))
        child = first.copy()
        child[begin:end] = second[begin:end]
        return self.move_run(child) if self.rng.random() < self.mutation else child

    def choose_parent(self) -> int:
        """Choose the better of two random members."""
        return int(self.rng.integers(len(self.living), size=2).min())


def hill_climb(env: gym.Env[Any, Any], seed: int, **kwargs: Any) -> Annealing:
    """Make annealing that never accepts a slower placement."""
    return Annealing(env, seed, heat=(0.0, 0.0), **kwargs)


def annealing(env: gym.Env[Any, Any], seed: int, start: str = "random", **kwargs: Any) -> Annealing:
    """Make simulated annealing; see ``Annealing``.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        start: ``"random"``; ``"best"``: the fastest of HEFT, m-ETF and every single device, which
            are evaluated first; or a placement file.
        kwargs: Arguments of ``Annealing``.

    Raises:
        ValueError: It is none of these.
        PlacementMismatchError: The placement was made for something else.
    """
    if start == "random":
        return Annealing(env, seed, **kwargs)
    if start != "best" and not Path(start).is_file():
        raise UserError(f"start must be 'random', 'best' or a placement file, not {start!r}")
    if start == "best":
        return Annealing(env, seed, starts=propose_heuristics(env), **kwargs)
    return Annealing(env, seed, starts=saved(env, seed, start).assignment[None], **kwargs)


def propose_heuristics(env: gym.Env[Any, Any]) -> IntArray:
    """(k, n_units) placements of the list schedulers and of every single device."""
    base = placement_env(env)
    problem, costs = base.problem, base.cost_table()
    singles = [problem.single(device) for device in range(len(problem.devices))]
    return np.stack([heft(problem, costs), m_etf(problem, costs), *singles])
