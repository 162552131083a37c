"""A multilevel placer: coarsen, place the coarse problem, refine on every level.

Partitioners such as METIS and dagP do the same, with two differences. Devices are not alike and
have limited memory, so refinement pays for memory, at prices that rise until the limits hold. And
the latency of a placement is not a sum, so many refinements under different terms are evaluated,
and the best of them are annealed by moves of clusters of all sizes, under the model that agrees
best with the evaluations.
"""

from __future__ import annotations

import numpy as np

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.costs.semantics import Semantics
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.beams.block_placement import place_by_blocks
from placement_gym.solvers.levels.anneal import Groups, anneal
from placement_gym.solvers.levels.coarsen import Hierarchy, coarsen
from placement_gym.solvers.levels.models import Operators, choose_model
from placement_gym.solvers.levels.pricing import Pricing, PricingTerms
from placement_gym.solvers.levels.refine import RefinementPrices, make_state
from placement_gym.solvers.list_scheduling import MANY_UNITS, critical_path, heft, m_etf
from placement_gym.solvers.proposals import Found, Proposals

TRANSFERS = (1.0, 0.3, 0.1, 0.03, 0.01)
POWERS = (0.0, 1.0, 3.0, 8.0)
WORK = 600_000
"""Number of operators that the model schedules per evaluation."""
STEPS = (4, 600)
"""Minimum and maximum number of moves under the model per evaluation."""
CHAINS = (1.0, 1.0, 1.0, 1.0)
"""Temperature of each chain, relative to the common one."""
HEAT = (0.02, 0.0003)
"""First and last temperature, in log latency."""
APART = 0.1
"""Share of the units in which the first placements of any two chains differ."""
LOST = 2.5
"""A chain continues from the best placement once it is behind by this many temperatures."""


def search(problem: Problem, costs: CostTable, rng: np.random.Generator, horizon: int) -> Proposals:
    """Propose placements and receive their latencies, indefinitely.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        rng: Source of all random choices.
        horizon: Number of evaluations over which the temperature falls.
    """
    hierarchy = coarsen(problem, costs, rng)
    pricing = Pricing(hierarchy, problem.limits_bytes, rng)
    found = Found()
    if problem.n_units <= MANY_UNITS:
        heuristics = [solver(problem, costs) for solver in (heft, m_etf, critical_path)]
        found.add((placements := np.stack(heuristics)), (yield placements))
    elif (by_blocks := place_by_blocks(problem, costs, Semantics("list"))) is not None:
        found.add((placements := by_blocks[None]), (yield placements))
    for terms in (PricingTerms(t, p) for p in POWERS for t in TRANSFERS):
        latencies = yield (placements := pricing.place(terms)[None])
        found.add(placements, latencies)
    steps = int(np.clip(WORK / len(problem.units.graph), *STEPS))
    chains = AnnealedChains(problem, costs, hierarchy, found, rng)
    yield from anneal_chains(chains, horizon - len(found), steps)


class AnnealedChains:
    """Placements that are annealed side by side under a model.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        hierarchy: Its levels.
        found: Placements and their latencies; chains start at the best.
        rng: Source of all random choices.
    """

    def __init__(
        self,
        problem: Problem,
        costs: CostTable,
        hierarchy: Hierarchy,
        found: Found,
        rng: np.random.Generator,
    ) -> None:
        self.level, self.groups = hierarchy.levels[0], Groups.of(hierarchy)
        self.operators, self.limits = Operators.of(problem, costs), problem.limits_bytes
        latencies = np.array(found.latencies)
        self.model, _ = choose_model(self.operators, np.stack(found.placements), latencies)
        self.rng = rng
        starts = found.best(len(CHAINS), APART)
        self.best, self.best_ms = found.placements[starts[0]], found.latencies[starts[0]]
        self.states = [
            make_state(self.level, found.placements[starts[i % len(starts)]].copy(), self.limits)
            for i in range(len(CHAINS))
        ]

    def propose(self, heat: float, steps: int) -> IntArray:
        """(k, n_units) the best placement that each chain reaches in some steps."""
        prices = RefinementPrices(np.zeros(len(self.limits)), 1.0, 0.0, 1.0)
        seeds = self.rng.integers(2**31, size=len(CHAINS))
        ends = [
            anneal(
                self.level,
                self.groups,
                self.operators,
                self.model,
                state,
                prices,
                steps,
                heat * factor,
                seed,
            )
            for state, seed, factor in zip(self.states, seeds, CHAINS, strict=True)
        ]
        return np.stack([placement for _, placement in ends])

    def learn(self, heat: float, placements: IntArray, latencies: FloatArray) -> None:
        """Let chains that are far behind continue from the best placement."""
        if np.isinf(latencies.min()) and np.isinf(self.best_ms):
            return
        if latencies.min() < self.best_ms:
            self.best_ms = float(latencies.min())
            self.best = placements[latencies.argmin()]
        behind = np.log(latencies / self.best_ms)
        for i, factor in enumerate(CHAINS[: len(latencies)]):
            if behind[i] > LOST * heat * factor:
                self.states[i] = make_state(self.level, self.best.copy(), self.limits)


def anneal_chains(chains: AnnealedChains, horizon: int, steps: int) -> Proposals:
    """Anneal chains for ``steps`` moves per evaluation, cooling down over ``horizon`` of them."""
    done = 0
    while True:
        passed = min(done / max(horizon, 1), 1.0)
        heat = HEAT[0] * (HEAT[1] / HEAT[0]) ** passed
        latencies = yield (placements := chains.propose(heat, steps))
        chains.learn(heat, placements, latencies)
        done += len(latencies)
