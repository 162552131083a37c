"""The refining search where evaluations are measurements, which correct its model."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.search.moves import Moves
from agents.search.search import UNFIT
from agents.search.starts import propose_heuristics
from agents.sequential.correction import Correction
from agents.sequential.network import Network
from agents.sequential.refined import Refined
from agents.sequential.schedule import Schedule
from placement_gym.arrays import FloatArray, IntArray

SCREEN = 10
"""Moves of the fastest placement for each that is evaluated, as annealing has them."""


class Corrected(Refined):
    """As ``Refined``, but each batch searches a model drawn from what measurements have left open.

    The model is a profile, and a profile is wrong here and there. Single devices and what
    heuristics propose are measured after the network's placement: some are fast though the profile
    does not say so, and they tell most of what is wrong. Drawing from what is then believed of the
    costs tries what may be fast and is not known yet (Thompson sampling), so that the search does
    not end where the profile has its optimum. Half of the rest are moves of the fastest placement,
    which evaluations alone judge.

    Args:
        env: The environment that evaluates placements; its devices take turns.
        seed: Seed of all random numbers.
        network: As for ``Refined``.
        kwargs: As for ``Refined``.

    Raises:
        UserError: Devices do not take turns.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int, network: Network, **kwargs: Any) -> None:
        super().__init__(env, seed, network, **kwargs)
        schedule = Schedule.of(self.problem, self.base.cost_table(), self.base.backend)
        self.correction = Correction(self.problem, schedule, self.rng)
        self.local_moves = Moves(self.base, self.rng, SCREEN)

    def evaluate(self, assignments: IntArray) -> tuple[IntArray, FloatArray]:
        """Evaluate (k, n_units) placements, and learn from those that are feasible."""
        evaluated, speedups = super().evaluate(assignments)
        fits = speedups > UNFIT
        self.correction.add(evaluated[fits], speedups[fits])
        return evaluated, speedups

    def propose(self, k: int) -> tuple[IntArray, FloatArray]:
        """The network's placement and those of heuristics, then ends of chains and local moves."""
        if not self.tried:
            starts = self.repair(propose_heuristics(self.base))
            proposed = np.concatenate([self.assignment[None], starts])[:k]
            return proposed, np.zeros(len(proposed))
        if self.chains is None:
            self.chains = self.start_chains()
        self.chains.follow_model(self.correction.draw(), self.parents)
        ends, _ = super().propose(k)
        moved = self.repair(self.local_moves.propose(self.assignment, len(ends)))
        mixed = self.rng.permutation(np.concatenate([ends, moved]))[:k]
        return mixed, np.zeros(len(mixed))
