"""Groups that are drawn with each placement, by a graph network; our own method."""

from agents.graph_groups.policy import GraphGroupsOptions, GraphGroupsPolicy

__all__ = ["GraphGroupsOptions", "GraphGroupsPolicy"]
