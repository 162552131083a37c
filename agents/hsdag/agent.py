"""HSDAG as an agent: the policy, the algorithm that updates it (2.5), and the settings of both."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.reinforce import REINFORCE
from agents.common.sampled_env import make_training_envs
from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.hsdag.policy import HSDAGPolicy
from agents.search.starts import NOTHING, begin
from placement_gym.base.errors import unknown_name
from placement_gym.envs.placement_env import placement_env

EPISODE_LENGTH = 20
"""Placements per episode and rollout of the paper (3.1)."""
RL: dict[str, Any] = {
    "learning_rate": 1e-3,
    "n_steps": 1,
    "min_spread": 0.05,
    "max_grad_norm": inf,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "rl": RL,
    "rl-redraw": {**RL, "n_steps": 4, "redraw": 100},
    "paper": {
        "learning_rate": 1e-4,
        "n_steps": EPISODE_LENGTH,
        "n_epochs": 4,
        "gamma": 0.95,
        "returns": "immediate",
        "baseline": "none",
        "normalize_advantage": False,
        "max_grad_norm": inf,
    },
}
"""Arguments of REINFORCE. The paper states no discount; 0.95 is that of its code. Its loss sums
over the rollout where ours is the mean: Adam's steps are the same."""
ENVS: dict[str, dict[str, Any]] = {
    "rl": {"num_envs": 20},
    "rl-redraw": {"num_envs": 5},
    "paper": {"horizon": EPISODE_LENGTH, "reward": "inverse_latency"},
}
"""Arguments of ``PlacementVectorEnv``."""
TRAINER: dict[str, Any] = {"learning_rate": 1e-3, "min_spread": 0.05, "max_grad_norm": 1.0}
"""Arguments of REINFORCE across problems."""
ADAM = {"betas": (0.5, 0.999)}
POLICIES: dict[str, dict[str, Any]] = {
    "rl": {"preset": "rl", "optimizer_kwargs": ADAM},
    "rl-redraw": {"preset": "rl", "optimizer_kwargs": ADAM},
    "paper": {"preset": "paper"},
}
"""Arguments of ``HSDAGPolicy``."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "rl",
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    begin_with: str = NOTHING,
    weights: str | Path | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make REINFORCE with ``HSDAGPolicy``, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        preset: ``"rl"``, ``"rl-redraw"``, which after 100 placements draws windows of the best one
            anew, or ``"paper"``; of policy, ``PlacementVectorEnv`` and REINFORCE.
        policy: Options of ``HSDAGPolicy`` that override the preset.
        envs: Arguments of ``PlacementVectorEnv`` that override the preset.
        begin_with: What is evaluated first: ``"nothing"``, ``"heuristics"`` or ``"search"``, see
            ``agents.search.starts``.
        weights: What the policy begins with: a file of ``agents.save_weights``; None is random.
        settings: Arguments of ``REINFORCE`` that override the preset, as ``imitate``.

    Raises:
        ValueError: Unknown preset, or an argument is out of range.
    """
    if preset not in SETTINGS:
        raise unknown_name("preset", preset, SETTINGS)
    sees = bool((policy or {}).get("devices"))
    graphs = placement_env(env).graph_table(devices=True if sees else None)
    model = REINFORCE(
        HSDAGPolicy,
        vectorize(env, **ENVS[preset] | (envs or {})),
        policy_kwargs={"graphs": graphs, **POLICIES[preset] | (policy or {})},
        seed=seed,
        **{"device": "cpu", **SETTINGS[preset], **settings},
    )
    begin(model.policy, env, begin_with, seed)
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
    return model


def make_trainer(
    seed: int = 0,
    problems: int = 8,
    episodes: int = 8,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make REINFORCE on problems of the split ``train``; ``learn`` then draws them.

    The network alone learns: a graph gets a table only where it is adapted to, by ``make`` with
    ``weights``. Both need environments with the same ``max_devices``.

    Args:
        seed: Of weights and problems.
        problems: Of an update.
        episodes: Placements of each, at least two, which are compared with each other.
        policy: Options of ``HSDAGPolicy`` that override the preset ``"rl"`` and ``devices=True``.
        envs: Arguments of ``SampledProblemEnv``, as ``draw``.
        settings: Arguments of ``REINFORCE`` that override ``TRAINER``.

    Raises:
        UserError: There are fewer episodes.
    """
    return REINFORCE(
        HSDAGPolicy,
        make_training_envs(problems, episodes, **envs or {}),
        n_steps=episodes,
        seed=seed,
        device="cpu",
        policy_kwargs={"devices": True, **(policy or {})},
        **TRAINER | settings,
    )
