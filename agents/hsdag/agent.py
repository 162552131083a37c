"""HSDAG as an agent of the benchmark: the policy, its algorithm, and the settings of both."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.common.batched import batched
from agents.common.reinforce import REINFORCE
from agents.hsdag.policy import HSDAGPolicy
from placement_gym.env import placement_env
from placement_gym.errors import UserError

BUFFER = 20
"""Placements of an episode, which are learned from together (HSDAG, 3.1)."""
SETTINGS: dict[str, dict[str, Any]] = {
    "search": {
        "learning_rate": 1e-3,
        "n_steps": 1,
        "n_epochs": 4,
        "elites": 2,
        "imitation": 10.0,
    },
    "paper": {
        "learning_rate": 1e-4,
        "n_steps": BUFFER,
        "n_epochs": 4,
        "gamma": 0.95,
        "returns": "immediate",
        "baseline": "none",
        "normalize_advantage": False,
    },
}
"""Of REINFORCE; the paper gives no discount, its code this one."""
ENVS: dict[str, dict[str, Any]] = {
    "search": {"num_envs": 10},
    "paper": {"horizon": BUFFER, "reward": "inverse_latency"},
}
"""Of ``PlacementVectorEnv``."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "search",
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    **settings: Any,
) -> REINFORCE:
    """HSDAG with REINFORCE, on batches of placements of one environment.

    Args:
        env: Where it learns.
        seed: Of everything random.
        preset: ``"search"`` or ``"paper"``, of policy and settings.
        policy: Options of ``HSDAGPolicy`` that differ from the preset.
        envs: Arguments of ``PlacementVectorEnv`` that do.
        settings: Arguments of ``REINFORCE`` that do.

    Raises:
        ValueError: No such preset, or an argument is out of range.
    """
    if preset not in SETTINGS:
        raise UserError(f"preset must be one of {sorted(SETTINGS)}, not {preset!r}")
    graphs = placement_env(env).graph_table()
    policy_kwargs = {"preset": preset, "graphs": graphs, **(policy or {})}
    return REINFORCE(
        HSDAGPolicy,
        batched(env, **ENVS[preset] | (envs or {})),
        policy_kwargs=policy_kwargs,
        seed=seed,
        **{"device": "cpu", **SETTINGS[preset], **settings},
    )
