"""Post as an agent of the benchmark: its numbers, which the README has with sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.factory import SB3_ADAM, Method, Preset
from agents.common.logits import LogitsOptions, LogitsPolicy
from agents.common.started_learner import make_started_learner
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
    Path(__file__).parent,
    Post,
)


@hands_on_to(make_started_learner, Post)
def make(env: gym.Env[Any, Any], seed: int, **choices: Any) -> Post:
    """Make Post, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        choices: Those of ``make_started_learner``. ``preset="rl"``, the default,
            begins with a preference for fast devices, ``"paper"`` with equal probabilities;
            ``weights="inception-hsdag-paper"`` fits that problem alone.
    """
    model: Post = make_started_learner(METHOD, env, seed, **choices)
    return model
