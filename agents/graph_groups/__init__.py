"""Groups that a graph network draws with each placement; not of a publication."""

from __future__ import annotations

from agents.common import LearnedAgent, make_preset
from agents.graph_groups.policy import GraphGroupsOptions, GraphGroupsPolicy
from agents.graph_groups.redraw import RedrawingREINFORCE

__all__ = ["GraphGroupsOptions", "GraphGroupsPolicy", "RedrawingREINFORCE", "make"]

make = LearnedAgent(
    GraphGroupsPolicy, {"rl": make_preset(GraphGroupsOptions(), 1e-3)}, RedrawingREINFORCE
)
"""Makes REINFORCE with ``GraphGroupsPolicy``; see ``agents.common.make.LearnedAgent``."""
