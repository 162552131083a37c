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
from placement_gym.solvers.repair import repair

TRAINED, UNTRAINED = "trained", "none"
WEIGHTS = Path(__file__).parent / "weights" / "default.safetensors"
"""The network of this package; ``weights/README.md`` says how it was made."""
TRAINED_NOISE = 3.0
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
        self.devices = np.arange(len(self.problem.devices))
        self.assignment = self.repair(self.placer.place()[None])[0]

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


def make(
    env: gym.Env[Any, Any],
    seed: int,
    checkpoint: str | Path = TRAINED,
    noise: float | None = None,
    fine_tune: bool = False,
    **kwargs: Any,
) -> Sequential:
    """Make the sequential placer.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of its samples.
        checkpoint: A file of ``save_network``; ``"trained"`` takes the one of this package, and
            ``"none"`` a network that prefers nothing.
        noise: Factor of their noise; None takes ``TRAINED_NOISE``, or 1 without a checkpoint.
        fine_tune: Whether its copy of the network learns from what it evaluates, see
            ``ActiveSearch``.
        kwargs: Arguments of ``ListSearch``, and with ``fine_tune`` those of ``ActiveSearch``.

    Raises:
        FileError: The checkpoint cannot be read.
        UserError: It is none, or was written by another version.
    """
    if checkpoint == UNTRAINED:
        network, usual = Network(), 1.0
    else:
        file = WEIGHTS if checkpoint == TRAINED else checkpoint
        network, usual = load_network(file), TRAINED_NOISE
    kwargs["noise"] = usual if noise is None else noise
    if fine_tune:
        from agents.sequential.active_search import ActiveSearch

        return ActiveSearch(env, seed, network, **kwargs)
    return Sequential(env, seed, network, **kwargs)
