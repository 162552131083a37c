"""DOPPLER: two policies choose the next unit and its device (ICLR 2026).

``numbers.csv`` has the sources of the numbers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common import load_weights
from agents.doppler.doppler import Doppler
from agents.doppler.episodes import Settings
from placement_gym.base import check_choice, suggest_keywords

__all__ = ["Doppler", "make"]

PAPER = Settings(
    hidden=128,
    rounds=6,
    published=True,
    rows=1,
    imitation=2000,
    simulation=2000,
    learning_rate=1e-3,
    gradient_rate=1e-4,
    uniform=(1.0, 0.2, 0.2),
    entropy=(0.001, 0.0, 0.0),
    discount=0.99,
)
"""The published code's numbers."""
PRESETS = {"rl": Settings(), "paper": PAPER}


@suggest_keywords
def make(
    env: gym.Env[Any, Any],
    seed: int,
    *,
    preset: str = "rl",
    weights: str | Path | None = None,
    hidden: int | None = None,
    rounds: int | None = None,
    imitation: int | None = None,
    simulation: int | None = None,
) -> Doppler:
    """Make DOPPLER.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        preset: ``"rl"`` or ``"paper"``.
        weights: A file of ``agents.save_weights``, with which stages 1 and 2 are left out; None
            starts untrained.
        hidden: Width of the embeddings; None takes the preset's, here and below.
        rounds: Rounds of messages.
        imitation: Updates of stage 1.
        simulation: Updates of stage 2.

    Raises:
        FileError: The file cannot be read.
        UserError: The preset is unknown, or the weights do not fit.
    """
    check_choice("preset", preset, PRESETS)
    sizes = {"hidden": hidden, "rounds": rounds, "imitation": imitation, "simulation": simulation}
    given: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    model = Doppler(env, seed, replace(PRESETS[preset], **given))
    if weights is not None:
        load_weights(model, weights)
        model.use_trained_policy()
    return model
