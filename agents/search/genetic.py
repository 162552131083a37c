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
"""Size of the population, and children of a round; the fastest of both survive. Ours: few, as a
measured evaluation takes a second."""
MUTATION = 0.9
"""Probability that a child is also changed by a move: ours, as crossing equal parents gives
nothing."""


class Genetic(Search):
    """A genetic algorithm: tournaments of two, and crossover of intervals of the topological order.

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
        budget = end - self.evaluations
        # Starts first, then random blocks until the population is complete, then rounds of
        # children; each part may be cut short by the budget and goes on in the next call.
        if len(self.starts):
            children, self.starts = self.starts[:budget], self.starts[budget:]
        elif len(self.living) < POPULATION:
            k = min(POPULATION - len(self.living), budget)
            children = np.stack([random_blocks(self.problem, self.rng) for _ in range(k)])
        else:
            children = np.stack([self.make_child() for _ in range(min(CHILDREN, budget))])
        placements, fitness = self.evaluate(children)
        population = np.concatenate([self.living, placements])
        fitness = np.concatenate([self.fitness, fitness])
        # Stable, so that equal seeds give equal answers on every platform.
        survivors = np.argsort(-fitness, kind="stable")[:POPULATION]
        self.living, self.fitness = population[survivors], fitness[survivors]

    def make_child(self) -> IntArray:
        """Make a child: one parent's devices, except for an interval of the other's."""
        n = self.problem.n_units
        mother, father = (self.living[self.choose_parent()] for _ in range(2))
        # An interval of the order rather than random units: neighbours stay together, and transfers
        # few.
        begin, end = np.sort(self.rng.integers(0, n + 1, 2))
        child = mother.copy()
        child[begin:end] = father[begin:end]
        return self.moves.propose(child, 1)[0] if self.rng.random() < MUTATION else child

    def choose_parent(self) -> int:
        """Draw two members, and return the index of the better one."""
        # The population is sorted by fitness: the smaller index is the better member.
        return int(self.rng.integers(len(self.living), size=2).min())


def genetic(env: gym.Env[Any, Any], seed: int, start: str = HEURISTICS) -> Genetic:
    """Make a genetic algorithm; see ``Genetic``.

    Args:
        env: As for ``Search``.
        seed: As for ``Search``.
        start: See ``propose_starts``.

    Raises:
        UserError: The start is unknown.
        PlacementMismatchError: The placement is of another model or other devices.
    """
    return Genetic(env, seed, propose_starts(env, start))
