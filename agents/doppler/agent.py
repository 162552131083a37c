"""DOPPLER as an agent: presets, and trained policies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.weights import load_weights
from agents.doppler.doppler import Doppler
from agents.doppler.episodes import Settings
from agents.options import hands_on_to
from placement_gym.base.errors import unknown_name

PAPER = Settings(
    sample=False,
    respect_memory=False,
    own_features=False,
    earliest="start",
    rows=1,
    imitation=2000,
    simulation=2000,
    learning_rate=1e-3,
    gradient_rate=1e-4,
    uniform=(1.0, 0.2, 0.2),
    entropy=(0.001, 0.0, 0.0),
    discount=0.99,
    baseline="all",
    scale=False,
    ties="sum",
    max_norm=None,
)
"""The published code's numbers; its networks have ``hidden=128, rounds=6``."""
PRESETS: dict[str, tuple[Settings, dict[str, int]]] = {
    "rl": (Settings(), {"hidden": 32, "rounds": 3}),
    "paper": (PAPER, {"hidden": 128, "rounds": 6}),
}


@hands_on_to(Settings)
def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "rl",
    weights: str | Path | None = None,
    hidden: int | None = None,
    rounds: int | None = None,
    **changes: Any,
) -> Doppler:
    """Make DOPPLER.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        preset: ``"rl"`` or ``"paper"``.
        weights: Those of a trained policy, so that stages 1 and 2 are left out:
            ``"inception-hsdag-paper"``, trained on that problem with ``hidden=24``, or a file of
            ``agents.save_weights``; None is random.
        hidden: Width of the embeddings; None takes the preset's.
        rounds: Rounds of messages; None takes the preset's.
        changes: Attributes of ``Settings`` that override the preset.

    Raises:
        FileError: The file cannot be read.
        UserError: The preset is unknown, or the weights do not fit.
    """
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    settings, sizes = PRESETS[preset]
    model = Doppler(
        env,
        seed,
        replace(settings, **changes),
        sizes["hidden"] if hidden is None else hidden,
        sizes["rounds"] if rounds is None else rounds,
    )
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
        model.use_trained_policy()
    return model
