"""Drawn groups as an agent of the benchmark."""

from __future__ import annotations

from math import inf
from typing import Any

import gymnasium as gym

from agents.common.factory import Method, Preset, make_learner
from agents.common.reinforce import REINFORCE
from agents.graph_groups.policy import GraphGroupsOptions, GraphGroupsPolicy
from agents.options import hands_on_to

METHOD = Method(
    GraphGroupsPolicy,
    {
        "rl": Preset(
            GraphGroupsOptions(),
            {"learning_rate": 1e-3, "n_steps": 1, "min_spread": 0.05, "max_grad_norm": inf},
            {"num_envs": 20, "horizon": 1, "reward": "log_speedup"},
            {"betas": (0.5, 0.999)},
        )
    },
)


@hands_on_to(make_learner, REINFORCE)
def make(env: gym.Env[Any, Any], seed: int, **choices: Any) -> REINFORCE:
    """Make REINFORCE with ``GraphGroupsPolicy``; see ``make_learner``."""
    model: REINFORCE = make_learner(METHOD, env, seed, **choices)
    return model
