"""Post as an agent of the benchmark."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.common.batched import batched
from agents.post.post import Post
from placement_gym.env import placement_env

ROLLOUT = 10
"""Placements between two PPO updates."""


def make(env: gym.Env[Any, Any], seed: int, **settings: Any) -> Post:
    """Post on batches of placements of one environment.

    Args:
        env: Where it learns.
        seed: Of everything random.
        settings: Arguments of ``Post``.
    """
    policy_kwargs = {"graphs": placement_env(env).graph_table()}
    rollouts = batched(env, num_envs=ROLLOUT, horizon=1, reward="log_speedup")
    defaults: dict[str, Any] = {"n_steps": 1, "device": "cpu", "policy_kwargs": policy_kwargs}
    return Post("LogitsPolicy", rollouts, seed=seed, **defaults | settings)
