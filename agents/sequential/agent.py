"""The sequential placer as an agent, with the network that comes with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.sequential.active_search import ActiveSearch
from agents.sequential.checkpoint import load_network
from agents.sequential.corrected import Corrected
from agents.sequential.network import Network
from agents.sequential.refined import Refined
from agents.sequential.schedule import find_measured_objective
from agents.sequential.search import Sequential
from placement_gym.env import placement_env

TRAINED, UNTRAINED = "trained", "none"
WEIGHTS = Path(__file__).parent / "weights" / "default.safetensors"
"""The network of this package; ``weights/README.md`` says how it was made."""
TRAINED_NOISE = 3.0
"""Factor of the noise beside preferences that were learned, chosen on validation problems."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    checkpoint: str | Path = TRAINED,
    noise: float | None = None,
    fine_tune: bool = False,
    refine: bool = True,
    correct: bool | None = None,
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
        refine: Whether moves under the decoder's model refine what it evaluates, see ``Refined``;
            else, and with ``fine_tune``, it evaluates samples.
        correct: Whether evaluations correct that model, see ``Corrected``; None: where latencies
            are measured, as the model is a profile there.
        kwargs: Arguments of ``ListSearch``, and those of ``Refined`` or ``ActiveSearch``.

    Raises:
        FileError: The checkpoint cannot be read.
        UserError: It is none, or was written by another version; or ``correct`` where devices
            do not take turns.
    """
    if checkpoint == UNTRAINED:
        network, usual = Network(), 1.0
    else:
        file = WEIGHTS if checkpoint == TRAINED else checkpoint
        network, usual = load_network(file), TRAINED_NOISE
    kwargs["noise"] = usual if noise is None else noise
    if fine_tune:
        return ActiveSearch(env, seed, network, **kwargs)
    if correct is None:
        correct = find_measured_objective(placement_env(env).backend) == "latency"
    if refine and correct:
        return Corrected(env, seed, network, **kwargs)
    if refine:
        return Refined(env, seed, network, **kwargs)
    return Sequential(env, seed, network, **kwargs)
