"""One search for placements, under any schedule and any budget."""

from placement_gym.solvers.search.anytime import AnytimeSearch, SearchResult, search

__all__ = ["AnytimeSearch", "SearchResult", "search"]
