"""Plain REINFORCE on tables of logits: what every learned agent is compared with."""

from __future__ import annotations

from math import inf

from agents.common import LearnedAgent, Preset
from agents.logits.policy import LogitsOptions, LogitsPolicy

__all__ = ["LogitsOptions", "LogitsPolicy", "make"]

PRESETS = {
    "rl": Preset(
        LogitsOptions(),
        {"learning_rate": 0.1, "n_steps": 1, "min_spread": 0.05, "max_grad_norm": inf},
        {"num_envs": 20, "horizon": 1, "reward": "log_speedup"},
        # short memory of gradients: a rollout says most of what the last ones did
        {"betas": (0.5, 0.999)},
    )
}
make = LearnedAgent(LogitsPolicy, PRESETS)
"""Makes REINFORCE with ``LogitsPolicy``; see ``agents.common.make.LearnedAgent``."""
