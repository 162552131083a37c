"""The sequential placer as an agent: zero-shot placements, and a search of what it samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.list_search import ListSearch
from agents.sequential.checkpoint import load_network
from agents.sequential.network import Network
from agents.sequential.placer import Placer
from placement_gym.arrays import IntArray
from placement_gym.solvers.list_sampling import Noise


class Sequential(ListSearch):
    """Predicts the network's placement; ``learn`` searches among its samples, weights unchanged.

    Half of a batch are samples of the decoder with noise that is constant over runs of units, the
    others decide parts of the fastest placements anew. With a network that has learned nothing this
    is list sampling, with a greedy choice that follows the schedule.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        network: Decides; it may be shared.
        kwargs: As for ``ListSearch``.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int, network: Network, **kwargs: Any) -> None:
        super().__init__(env, seed, **kwargs)
        self.placer = Placer(network, self.base)
        self.assignment = self.placer.place()

    def decode(self, noise: Noise) -> IntArray:
        """(k, n_units) the placements that noise decodes to."""
        return self.placer.sample(noise)


def make(
    env: gym.Env[Any, Any], seed: int, checkpoint: str | Path | None = None, **kwargs: Any
) -> Sequential:
    """Make the sequential placer.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of its samples.
        checkpoint: A file of ``save_network``; None takes a network that prefers nothing.
        kwargs: Arguments of ``ListSearch``.

    Raises:
        FileError: The checkpoint cannot be read.
        UserError: It is none, or was written by another version.
    """
    network = Network() if checkpoint is None else load_network(checkpoint)
    return Sequential(env, seed, network, **kwargs)
