"""HSDAG as an agent: the policy, and the algorithm that updates it (2.5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.free_memory import lacks_repair
from agents.common.reinforce import REINFORCE
from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.hsdag.policy import HSDAGPolicy
from agents.hsdag.presets import PRESETS, SCARCE
from placement_gym.base.errors import unknown_name
from placement_gym.envs.placement_env import placement_env


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
        preset: ``"rl"``, ``"paper"`` or ``"code"``, see ``agents.hsdag.presets``; ``"rl"`` has a
            weaker prior and larger steps where memory is scarce and nothing repairs placements.
        policy: Options of ``HSDAGPolicy`` that override the preset.
        envs: Arguments of ``PlacementVectorEnv`` that override the preset.
        weights: What the policy begins with: a file of ``agents.save_weights``; None is random.
        settings: Arguments of ``REINFORCE`` that override the preset, as ``imitate``.

    Raises:
        UserError: Unknown preset or option, or an argument is out of range.
    """
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    base = placement_env(env)
    chosen = SCARCE if preset == "rl" and lacks_repair(base) else PRESETS[preset]
    model = REINFORCE(
        HSDAGPolicy,
        vectorize(env, **{**chosen.envs, **(envs or {})}),
        policy_kwargs={
            "preset": preset,
            "cost_weight": chosen.policy.cost_weight,
            "graphs": base.graph_table(),
            "optimizer_kwargs": dict(chosen.optimizer),
            **(policy or {}),
        },
        seed=seed,
        **{"device": "cpu", **chosen.reinforce, **settings},
    )
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
    return model
