"""Search without a network: search, hill climbing, annealing, genetic."""

from __future__ import annotations

from agents.search.annealing import Annealing, annealing, hill_climb
from agents.search.anytime import SearchAgent
from agents.search.genetic import Genetic, genetic
from agents.search.search import Search

__all__ = ["Annealing", "Genetic", "Search", "SearchAgent", "annealing", "genetic", "hill_climb"]
