"""Post: cross-entropy minimisation and proximal policy optimisation of plain logits."""

from __future__ import annotations

from dataclasses import replace

from agents.common import SB3_ADAM, LearnedAgent, Preset
from agents.logits import LogitsOptions, LogitsPolicy
from agents.post.post import Post

__all__ = ["Post", "make"]

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
"""``numbers.csv`` has the sources of the numbers."""
PRESETS = {"rl": replace(PAPER, policy=LogitsOptions(cost_weight=2.0)), "paper": PAPER}
make = LearnedAgent(LogitsPolicy, PRESETS, Post)
"""Makes Post; see ``agents.common.make.LearnedAgent``.

``preset="rl"``, the default, begins with a preference for fast devices, ``"paper"`` with equal
probabilities.
"""
