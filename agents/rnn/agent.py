"""RNN placers as agents of the benchmark."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.common.reinforce import REINFORCE
from agents.common.vec_env import vectorize
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
"""Arguments of REINFORCE. Unlike in the paper advantages are scaled, as rewards are in sqrt(ms)."""
ENVS: dict[str, Any] = {"num_envs": 10, "horizon": 1, "reward": "neg_sqrt_latency"}
"""Arguments of ``PlacementVectorEnv``."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    hierarchical: bool = False,
    **settings: Any,
) -> REINFORCE:
    """Make an RNN placer with REINFORCE, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        policy: Arguments of ``RNNPolicy``.
        envs: Arguments of ``PlacementVectorEnv`` that override ``ENVS``.
        hierarchical: Whether units are grouped first.
        settings: Arguments of ``REINFORCE`` that override ``SETTINGS``.
    """
    return REINFORCE(
        HDPPolicy if hierarchical else RNNPolicy,
        vectorize(env, **ENVS | (envs or {})),
        policy_kwargs={"graphs": placement_env(env).graph_table(), **(policy or {})},
        seed=seed,
        **SETTINGS | settings,
    )


def make_hierarchical(env: gym.Env[Any, Any], seed: int, **kwargs: Any) -> REINFORCE:
    """Make the hierarchical placer; see ``make``."""
    return make(env, seed, hierarchical=True, **kwargs)
