"""RNN placers as agents of the benchmark."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.common.batched import batched
from agents.common.reinforce import REINFORCE
from agents.rnn.hdp import HDPPolicy
from agents.rnn.policy import RNNPolicy
from placement_gym.env import placement_env

SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "n_steps": 1,
    "baseline": "moving_average",
    "decay": 0.9,
    "ent_coef": 0.01,
    "max_grad_norm": 1.0,
    "device": "cpu",
}
"""Of REINFORCE; that advantages are scaled is ours, as rewards are roots of milliseconds here."""
ENVS: dict[str, Any] = {"num_envs": 10, "horizon": 1, "reward": "neg_sqrt_latency"}
"""Of ``PlacementVectorEnv``."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    hierarchical: bool = False,
    **settings: Any,
) -> REINFORCE:
    """An RNN placer with REINFORCE, on batches of placements of one environment.

    Args:
        env: Where it learns.
        seed: Of everything random.
        policy: Arguments of ``RNNPolicy``.
        envs: Arguments of ``PlacementVectorEnv`` that differ from ``ENVS``.
        hierarchical: Whether units are grouped first.
        settings: Arguments of ``REINFORCE`` that differ from ``SETTINGS``.
    """
    return REINFORCE(
        HDPPolicy if hierarchical else RNNPolicy,
        batched(env, **ENVS | (envs or {})),
        policy_kwargs={"graphs": placement_env(env).graph_table(), **(policy or {})},
        seed=seed,
        **SETTINGS | settings,
    )


def make_hierarchical(env: gym.Env[Any, Any], seed: int, **kwargs: Any) -> REINFORCE:
    """The hierarchical placer; see ``make``."""
    return make(env, seed, hierarchical=True, **kwargs)
