"""Post as an agent of the benchmark."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.common.vec_env import vectorize
from agents.post.post import Post
from placement_gym.env import placement_env

ROLLOUT = 10
"""Placements per PPO update."""


def make(env: gym.Env[Any, Any], seed: int, **settings: Any) -> Post:
    """Make Post, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        settings: Arguments of ``Post``.
    """
    policy_kwargs = {"graphs": placement_env(env).graph_table()}
    rollouts = vectorize(env, num_envs=ROLLOUT, horizon=1, reward="log_speedup")
    defaults: dict[str, Any] = {"n_steps": 1, "device": "cpu", "policy_kwargs": policy_kwargs}
    return Post("LogitsPolicy", rollouts, seed=seed, **defaults | settings)
