"""Post as an agent of the benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.post.post import Post
from agents.search.starts import NOTHING, begin
from placement_gym.base.errors import unknown_name
from placement_gym.envs.placement_env import placement_env

ROLLOUT = 10
"""Placements per PPO update."""
POLICIES: dict[str, dict[str, Any]] = {
    "rl": {"runs": True, "groups": 30, "cost_weight": 2.0},
    "paper": {},
}
"""Arguments of ``LogitsPolicy``."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "rl",
    policy: dict[str, Any] | None = None,
    begin_with: str = NOTHING,
    weights: str | Path | None = None,
    **settings: Any,
) -> Post:
    """Make Post, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        preset: ``"rl"``: logits of runs, groups that are learned, and times; or ``"paper"``, a
            table alone.
        policy: Arguments of ``LogitsPolicy`` that override the preset.
        begin_with: The first evaluations: ``"nothing"``, ``"heuristics"`` or ``"search"``, see
            ``agents.search.starts``.
        weights: Those that the policy begins with: ``"inception-hsdag-paper"``, which fits that
            problem alone, or a file of ``agents.save_weights``; None is untrained.
        settings: Arguments of ``Post``, as ``imitate``.

    Raises:
        ValueError: Unknown preset, or an argument is out of range.
    """
    if preset not in POLICIES:
        raise unknown_name("preset", preset, POLICIES)
    base = placement_env(env)
    chosen = POLICIES[preset] | (policy or {})
    sees = chosen.get("cost_weight", 0.0) > 0.0
    graphs = base.graph_table(devices=True if sees else None)
    rollouts = vectorize(env, num_envs=ROLLOUT, horizon=1, reward="log_speedup")
    defaults: dict[str, Any] = {"n_steps": 1, "device": "cpu"}
    policy_kwargs = {"graphs": graphs, **chosen}
    model = Post(
        "LogitsPolicy", rollouts, seed=seed, policy_kwargs=policy_kwargs, **defaults | settings
    )
    begin(model.policy, env, begin_with, seed)
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
    return model
