"""Post as an agent of the benchmark: its numbers, which the README has with sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym

from agents.common.factory import SB3_ADAM, Method, Preset, make_learner
from agents.common.logits import LogitsOptions, LogitsPolicy
from agents.options import hands_on_to
from agents.post.post import Post

PAPER = Preset(
    LogitsOptions(),
    {
        "learning_rate": 1e-2,
        "n_steps": 1,
        "variant": "joint",
        "n_epochs": 10,
        "clip_range": 0.2,
        "max_grad_norm": 1.0,
    },
    {"num_envs": 10, "horizon": 1, "reward": "log_speedup"},
    SB3_ADAM,
)
METHOD = Method(
    LogitsPolicy,
    {"rl": replace(PAPER, policy=LogitsOptions(cost_weight=2.0)), "paper": PAPER},
    Post,
)


@hands_on_to(make_learner, Post)
def make(env: gym.Env[Any, Any], seed: int, **choices: Any) -> Post:
    """Make Post, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        choices: Those of ``make_learner``. ``preset="rl"``, the default, begins with a
            preference for fast devices, ``"paper"`` with equal probabilities.
    """
    model: Post = make_learner(METHOD, env, seed, **choices)
    return model
