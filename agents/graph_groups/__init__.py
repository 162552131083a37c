"""Groups that are drawn with each placement, by a graph network; of no publication."""

from __future__ import annotations

from math import inf

from agents.common import LearnedAgent, Preset
from agents.graph_groups.networks import GraphGroupsOptions
from agents.graph_groups.policy import GraphGroupsPolicy
from agents.graph_groups.redraw import RedrawingREINFORCE

__all__ = ["GraphGroupsOptions", "GraphGroupsPolicy", "RedrawingREINFORCE", "make"]

PRESETS = {
    "rl": Preset(
        GraphGroupsOptions(),
        {"learning_rate": 1e-3, "n_steps": 1, "min_spread": 0.05, "max_grad_norm": inf},
        {"num_envs": 20, "horizon": 1, "reward": "log_speedup"},
        {"betas": (0.5, 0.999)},
    )
}
make = LearnedAgent(GraphGroupsPolicy, PRESETS, RedrawingREINFORCE)
"""Makes REINFORCE with ``GraphGroupsPolicy``; see ``agents.common.make.LearnedAgent``."""
