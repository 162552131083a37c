"""Search without a network: search, hill climbing, annealing."""

from __future__ import annotations

from agents.search.annealing import Annealing, annealing, hill_climb
from agents.search.anytime import SearchAgent
from agents.search.search import Search

__all__ = ["Annealing", "Search", "SearchAgent", "annealing", "hill_climb"]
