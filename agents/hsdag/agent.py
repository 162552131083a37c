"""HSDAG as an agent: the policy, and the algorithm that updates it (2.5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.factory import Method, make_learner
from agents.common.free_memory import lacks_repair
from agents.common.reinforce import REINFORCE
from agents.hsdag.policy import HSDAGPolicy
from agents.hsdag.presets import PRESETS, SCARCE
from placement_gym.envs.placement_env import placement_env

METHOD = Method(HSDAGPolicy, PRESETS)


def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "rl",
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    weights: str | Path | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make REINFORCE with ``HSDAGPolicy``, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        preset: ``"rl"`` or ``"paper"``, see ``agents.hsdag.presets``; ``"rl"`` has a weaker prior
            and larger steps where memory is scarce and nothing repairs placements.
        policy: Options of ``HSDAGPolicy`` that override the preset.
        envs: Arguments of ``PlacementVectorEnv`` that override the preset.
        weights: What the policy begins with: a file of ``agents.save_weights``; None is random.
        settings: Arguments of ``REINFORCE`` that override the preset.

    Raises:
        UserError: Unknown preset or option, or an argument is out of range.
    """
    scarce = lacks_repair(placement_env(env))
    method = replace(METHOD, presets={**PRESETS, "rl": SCARCE}) if scarce else METHOD
    model: REINFORCE = make_learner(
        method, env, seed, preset, policy, envs, weights=weights, **settings
    )
    return model
