"""The sequential placer as an agent: zero-shot placements, and a search of what it samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from agents.search.list_search import ListSearch
from agents.sequential.checkpoint import load_network
from agents.sequential.network import Network
from agents.sequential.placer import Placer
from placement_gym.arrays import IntArray
from placement_gym.solvers.list_sampling import CERTAIN, Noise

TRAINED_NOISE = 2.0
"""Factor of the noise beside preferences that were learned, chosen on validation problems."""


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

    def __init__(
        self, env: gym.Env[Any, Any], seed: int, network: Network, noise: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(env, seed, **kwargs)
        self.noise = noise
        self.placer = Placer(network, self.base)
        self.assignment = self.placer.place()

    def decode(self, noise: Noise) -> IntArray:
        """(k, n_units) the placements that noise decodes to."""
        uncertain = np.abs(noise.preference) < CERTAIN
        scaled = np.where(uncertain, self.noise * noise.preference, noise.preference)
        return self.placer.sample(noise._replace(preference=scaled))


def make(
    env: gym.Env[Any, Any],
    seed: int,
    checkpoint: str | Path | None = None,
    noise: float | None = None,
    fine_tune: bool = False,
    **kwargs: Any,
) -> Sequential:
    """Make the sequential placer.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of its samples.
        checkpoint: A file of ``save_network``; None takes a network that prefers nothing.
        noise: Factor of their noise; None takes 1, or ``TRAINED_NOISE`` with a checkpoint.
        fine_tune: Whether its copy of the network learns from what it evaluates, see
            ``ActiveSearch``.
        kwargs: Arguments of ``ListSearch``, and with ``fine_tune`` those of ``ActiveSearch``.

    Raises:
        FileError: The checkpoint cannot be read.
        UserError: It is none, or was written by another version.
    """
    network = Network() if checkpoint is None else load_network(checkpoint)
    usual = 1.0 if checkpoint is None else TRAINED_NOISE
    kwargs["noise"] = usual if noise is None else noise
    if fine_tune:
        from agents.sequential.active_search import ActiveSearch

        return ActiveSearch(env, seed, network, **kwargs)
    return Sequential(env, seed, network, **kwargs)
