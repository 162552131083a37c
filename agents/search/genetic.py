"""A genetic algorithm on the devices of units."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.search.moves import Moves
from agents.search.search import Search
from agents.search.starts import HEURISTICS, propose_starts
from placement_gym.base.arrays import IntArray
from placement_gym.problem.patterns import random_blocks

POPULATION, CHILDREN = 10, 5
"""Placements that live, and new ones of a round; the fastest of both survive."""
MUTATION = 0.9
"""Probability that a child is also changed by a move."""


class Genetic(Search):
    """A genetic algorithm: parents are chosen by rank and crossed at cuts of the topological order.

    The first population is the starts and random blocks.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        starts: (k, n_units) placements; None for none.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int, starts: IntArray | None = None) -> None:
        super().__init__(env, seed)
        self.living = np.empty((0, self.problem.n_units), dtype=np.int64)
        self.starts = self.living if starts is None else starts
        self.moves = Moves(self.base, self.rng)
        self.fitness = np.empty(0)

    def improve(self, end: int) -> None:
        """Evaluate a part of the first population, or one round of children."""
        left = end - self.evaluations
        if len(self.starts):
            born, self.starts = self.starts[:left], self.starts[left:]
        elif len(self.living) < POPULATION:
            k = min(POPULATION - len(self.living), left)
            born = np.stack([random_blocks(self.problem, self.rng) for _ in range(k)])
        else:
            born = np.stack([self.make_child() for _ in range(min(CHILDREN, left))])
        evaluated, fitness = self.evaluate(born)
        everyone = np.concatenate([self.living, evaluated])
        fitness = np.concatenate([self.fitness, fitness])
        best = np.argsort(-fitness, kind="stable")[:POPULATION]
        self.living, self.fitness = everyone[best], fitness[best]

    def make_child(self) -> IntArray:
        """Make a child: one parent's devices, except for an interval of the other's."""
        n = self.problem.n_units
        first, second = (self.living[self.choose_parent()] for _ in range(2))
        begin, end = np.sort(self.rng.integers(0, n + 1, 2))
        child = first.copy()
        child[begin:end] = second[begin:end]
        return self.moves.propose(child, 1)[0] if self.rng.random() < MUTATION else child

    def choose_parent(self) -> int:
        """Choose the better of two random members."""
        return int(self.rng.integers(len(self.living), size=2).min())


def genetic(env: gym.Env[Any, Any], seed: int, start: str = HEURISTICS) -> Genetic:
    """Make a genetic algorithm; see ``Genetic``.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        start: See ``propose_starts``.

    Raises:
        UserError: There is no such start.
        PlacementMismatchError: The placement was made for something else.
    """
    return Genetic(env, seed, propose_starts(env, start))
