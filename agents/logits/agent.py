"""Tables of logits as agents of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.factory import Method, Preset
from agents.common.logits import LogitsOptions, LogitsPolicy
from agents.common.reinforce import REINFORCE
from agents.common.started_learner import make_started_learner
from agents.options import hands_on_to

GROUPS = 30
"""Groups of the first placements."""
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
    Path(__file__).parent,
)


@hands_on_to(make_started_learner, REINFORCE)
def make(env: gym.Env[Any, Any], seed: int, **choices: Any) -> REINFORCE:
    """Make plain REINFORCE with ``LogitsPolicy``; see ``make_started_learner``."""
    model: REINFORCE = make_started_learner(METHOD, env, seed, **choices)
    return model


@hands_on_to(make)
def make_multiscale(
    env: gym.Env[Any, Any], seed: int, policy: Mapping[str, Any] | None = None, **choices: Any
) -> REINFORCE:
    """Make the same with logits for runs of units of every size; see ``make``."""
    return make(env, seed, policy={"runs": True, **(policy or {})}, **choices)


@hands_on_to(make)
def make_groups(
    env: gym.Env[Any, Any], seed: int, policy: Mapping[str, Any] | None = None, **choices: Any
) -> REINFORCE:
    """Make the same with groups that are learned, too; see ``make``."""
    return make_multiscale(env, seed, {"groups": GROUPS, **(policy or {})}, **choices)
