"""The search that refines what the network samples, under the decoder's model."""

from __future__ import annotations

from typing import Any, Self

import gymnasium as gym
import numpy as np

from agents.sequential.chains import Chains, cool
from agents.sequential.network import Network
from agents.sequential.search import Sequential
from placement_gym.arrays import FloatArray, IntArray
from placement_gym.solvers.list_sampling import draw_noise, draw_prices

MOVES = 600
"""Moves under the model for each evaluation, half as many as the multilevel placer's."""
WORK = 300_000
"""Operators that the model schedules for each evaluation at most, in large graphs."""
SAMPLES = 64
"""Samples of the decoder that are estimated before any evaluation but the first."""


class Refined(Sequential):
    """Evaluates the network's placement, then the ends of chains of moves under a model.

    The model is that of the decoder: what the schedule of a simulated environment says, or serial
    cost. Chains begin with the cheapest of samples and plans, which the model compares without any
    evaluation; the network says which moves are promising.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        network: Decides; it may be shared.
        noise: Factor of the noise of samples.
        moves: Moves under the model for each evaluation.
        horizon: Evaluations over which the temperature falls; None takes those of the first
            ``learn``.
        kwargs: As for ``Sequential``.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        network: Network,
        noise: float = 1.0,
        moves: int = MOVES,
        horizon: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(env, seed, network, noise, **kwargs)
        most = WORK // max(len(self.problem.units.graph), 1)
        self.moves, self.horizon = max(min(moves, most), 1), horizon
        self.chains: Chains | None = None

    def learn(self, total_timesteps: int) -> Self:
        """Evaluate ``total_timesteps`` more placements, or fewer if it finds no more."""
        self.horizon = self.horizon or total_timesteps
        return super().learn(total_timesteps)

    def propose(self, k: int) -> tuple[IntArray, FloatArray]:
        """The network's placement first; then (k, n_units) ends of chains. There are no prices."""
        if not self.tried:
            return self.assignment[None], np.zeros(1)
        if self.chains is None:
            self.chains = self.start_chains()
        scorer, preference = self.placer.move_scorer, self.placer.preference
        heat = cool(self.evaluations / (self.horizon or 1))
        ends = self.chains.propose(preference, scorer, heat, self.moves)[:k]
        return ends, np.zeros(len(ends))

    def start_chains(self) -> Chains:
        """Chains from the cheapest of the network's placement, its samples and plans."""
        chains = Chains(self.base, self.rng)
        noise = draw_noise(self.decoder, self.rng, draw_prices(self.decoder, self.rng, SAMPLES))
        chains.start(np.concatenate([self.parents, self.decode(noise)]))
        return chains
