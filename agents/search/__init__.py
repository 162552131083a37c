"""Search without a network: hill climbing, annealing, cross-entropy, genetic."""

from __future__ import annotations

from agents.search.annealing import Annealing, annealing, hill_climb
from agents.search.cross_entropy import CrossEntropy
from agents.search.genetic import Genetic, genetic
from agents.search.search import Search

__all__ = [
    "Annealing",
    "CrossEntropy",
    "Genetic",
    "Search",
    "annealing",
    "genetic",
    "hill_climb",
]
