"""Search without a network: search, hill climbing, annealing, cross-entropy, genetic."""

from __future__ import annotations

from agents.search.annealing import Annealing, annealing, hill_climb
from agents.search.anytime import SearchAgent
from agents.search.cross_entropy import CrossEntropy
from agents.search.genetic import Genetic, genetic
from agents.search.search import Search

__all__ = [
    "Annealing",
    "CrossEntropy",
    "Genetic",
    "Search",
    "SearchAgent",
    "annealing",
    "genetic",
    "hill_climb",
]
