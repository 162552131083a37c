"""HSDAG as an agent of the benchmark: policy, algorithm and the settings of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.graph_policy import check_options
from agents.common.reinforce import REINFORCE
from agents.common.starts import RANDOM, begin_with
from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.hsdag.options import make_options
from agents.hsdag.policy import HSDAGPolicy
from placement_gym.env import placement_env
from placement_gym.errors import unknown_name

EPISODE_LENGTH = 20
"""Placements per episode and rollout (HSDAG, 3.1)."""
SETTINGS: dict[str, dict[str, Any]] = {
    "hsdag": {
        "learning_rate": 1e-3,
        "n_steps": 1,
        "n_epochs": 4,
        "gradient": 0.0,
        "elites": 2,
        "imitation": 10.0,
    },
    "search": {
        "learning_rate": 1e-3,
        "n_steps": 1,
        "n_epochs": 4,
        "elites": 2,
        "imitation": 10.0,
    },
    "paper": {
        "learning_rate": 1e-4,
        "n_steps": EPISODE_LENGTH,
        "n_epochs": 4,
        "gamma": 0.95,
        "returns": "immediate",
        "baseline": "none",
        "normalize_advantage": False,
    },
}
"""Arguments of REINFORCE. The paper states no discount; 0.95 is that of its code."""
STARTS = {"hsdag": "heuristics", "search": RANDOM, "paper": RANDOM}
ENVS: dict[str, dict[str, Any]] = {
    "hsdag": {"num_envs": 10},
    "search": {"num_envs": 10},
    "paper": {"horizon": EPISODE_LENGTH, "reward": "inverse_latency"},
}
"""Arguments of ``PlacementVectorEnv``."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "hsdag",
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    start: str | None = None,
    weights: str | Path | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make REINFORCE with ``HSDAGPolicy``, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        preset: ``"hsdag"``, ``"search"`` or ``"paper"``; of policy, ``PlacementVectorEnv`` and
            REINFORCE.
        policy: Options of ``HSDAGPolicy`` that override the preset; with ``"hsdag"``, ``room`` is
            kept where the environment does not repair.
        envs: Arguments of ``PlacementVectorEnv`` that override the preset.
        start: What is evaluated first, see ``agents.search.starts.propose_starts``; None takes
            the preset's.
        weights: What the policy begins with: ``"inception-hsdag-paper"``, trained on that problem
            with the default preset, or a file of ``agents.save_weights``; None is
            random.
        settings: Arguments of ``REINFORCE`` that override the preset.

    Raises:
        ValueError: Unknown preset, or an argument is out of range.
    """
    if preset not in SETTINGS:
        raise unknown_name("preset", preset, SETTINGS)
    base = placement_env(env)
    changes = ({"room": not base.repair} if preset == "hsdag" else {}) | (policy or {})
    check_options("HSDAGPolicy", changes, HSDAGPolicy.list_options())
    chosen = make_options(preset, changes)
    sees = chosen.devices or chosen.room
    graphs = base.graph_table(devices=True if sees else None)
    policy_kwargs = {"preset": preset, "graphs": graphs, **changes}
    model = REINFORCE(
        HSDAGPolicy,
        vectorize(env, **ENVS[preset] | (envs or {})),
        policy_kwargs=policy_kwargs,
        seed=seed,
        **{"device": "cpu", **SETTINGS[preset], **settings},
    )
    begin_with(model.policy, env, STARTS[preset] if start is None else start)
    assert isinstance(model.policy, HSDAGPolicy)
    model.policy.attach(base)
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
    return model
