"""The search among what a network samples on one problem."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.search.list_search import ListSearch
from agents.sequential.checkpoint import describe
from agents.sequential.network import Network
from agents.sequential.placer import Placer
from placement_gym.arrays import IntArray
from placement_gym.solvers.list_sampling import CERTAIN, Noise
from placement_gym.solvers.repair import repair


class Sequential(ListSearch):
    """Predicts the network's placement; ``learn`` searches among its samples, weights unchanged.

    Half of a batch are samples of the decoder with noise that is constant over runs of units, the
    others decide parts of the fastest placements anew. With a network that has learned nothing this
    is list sampling, with a greedy choice that follows the schedule.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        network: Decides; it may be shared.
        noise: Factor of the noise of samples.
        kwargs: As for ``ListSearch``.
    """

    name = "sequential"

    def __init__(
        self, env: gym.Env[Any, Any], seed: int, network: Network, noise: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(env, seed, **kwargs)
        self.noise = noise
        self.placer = Placer(network, self.base)
        self.devices = np.arange(len(self.problem.devices))
        self.assignment = self.repair(self.placer.place()[None])[0]

    @property
    def network(self) -> Network:
        """The network as it is now."""
        return self.placer.network

    def describe_weights(self) -> dict[str, Any]:
        """See ``agents.common.weights``."""
        return describe(self.network)

    def decode(self, noise: Noise) -> IntArray:
        """(k, n_units) the placements that noise decodes to."""
        uncertain = np.abs(noise.preference) < CERTAIN
        scaled = np.where(uncertain, self.noise * noise.preference, noise.preference)
        return self.repair(self.placer.sample(noise._replace(preference=scaled)))

    def repair(self, placements: IntArray) -> IntArray:
        """Mend (k, n_units) placements in which the last units found no room."""
        held = self.problem.unit_bytes @ (placements[..., None] == self.devices)
        if (held <= self.problem.limits_bytes).all():
            return placements
        prices = self.base.repair_prices
        return repair(self.problem, placements, prices.unit_ms, prices.links)
