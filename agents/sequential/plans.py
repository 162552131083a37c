"""Placements of the multilevel placer before it has evaluated any: what the network starts from.

A list scheduler fills the fastest device with what comes first. The plans look at the whole
problem: memory has a price that rises until limits hold, neighbours stay together. The network sees
where each plan puts a unit, and learns which of them to follow, and where not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.levels.coarsen import Hierarchy, coarsen
from placement_gym.solvers.levels.pricing import Pricing, PricingTerms

TERMS = (PricingTerms(1.0, 0.0), PricingTerms(0.3, 1.0), PricingTerms(0.3, 3.0))
"""Least added cost, and two ways to share out the load."""


def make_plans(problem: Problem, costs: CostTable) -> IntArray:
    """(n_plans, n_units) devices, the same on every call; nothing is evaluated."""
    rng = np.random.default_rng(0)
    return place_by_terms(problem, coarsen(problem, costs, rng), TERMS, rng)


def place_by_terms(
    problem: Problem, hierarchy: Hierarchy, terms: Sequence[PricingTerms], rng: np.random.Generator
) -> IntArray:
    """(n_terms, n_units) devices, one placement under each of some terms."""
    pricing = Pricing(hierarchy, problem.limits_bytes, rng)
    return np.stack([pricing.place(one) for one in terms])
