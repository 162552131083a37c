"""A table of logits as an agent of the benchmark."""

from __future__ import annotations

from math import inf
from typing import Any

import gymnasium as gym

from agents.common.factory import Method, Preset, make_learner
from agents.common.logits import LogitsOptions, LogitsPolicy
from agents.common.reinforce import REINFORCE
from agents.options import hands_on_to

METHOD = Method(
    LogitsPolicy,
    {
        "rl": Preset(
            LogitsOptions(),
            {"learning_rate": 0.1, "n_steps": 1, "min_spread": 0.05, "max_grad_norm": inf},
            {"num_envs": 20, "horizon": 1, "reward": "log_speedup"},
            # short memory of gradients: a rollout says most of what the last ones did
            {"betas": (0.5, 0.999)},
        )
    },
)


@hands_on_to(make_learner, REINFORCE)
def make(env: gym.Env[Any, Any], seed: int, **choices: Any) -> REINFORCE:
    """Make plain REINFORCE with ``LogitsPolicy``; see ``make_learner``."""
    model: REINFORCE = make_learner(METHOD, env, seed, **choices)
    return model
