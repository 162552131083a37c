"""Placements that are annealed side by side under the decoder's model, guided by a network."""

from __future__ import annotations

import numpy as np

from agents.sequential.outlook import MoveScorer
from agents.sequential.plans import place_by_terms
from agents.sequential.refining import Log, anneal, make_log
from agents.sequential.schedule import Schedule, estimate_all
from placement_gym.arrays import FloatArray, IntArray
from placement_gym.env import DevicePlacementEnv
from placement_gym.solvers.levels.anneal import Groups
from placement_gym.solvers.levels.coarsen import coarsen
from placement_gym.solvers.levels.pricing import PricingTerms
from placement_gym.solvers.levels.refine import make_state

CHAINS = 4
TERMS = tuple(PricingTerms(t, p) for p in (0.0, 1.0, 3.0, 8.0) for t in (1.0, 0.3, 0.1, 0.03, 0.01))
"""Of plans that chains may start from."""
HEAT = (0.02, 0.0003)
"""First and last temperature, in log latency."""
APART = 0.1
"""Share of the units in which the starts of any two chains differ, if there are such."""
LOST = 2.5
"""A chain continues from the best placement once it is behind by this many temperatures."""


class Chains:
    """Chains of placements within limits.

    Args:
        env: The problem and its costs; nothing is evaluated.
        rng: Source of all random choices.
    """

    def __init__(self, env: DevicePlacementEnv, rng: np.random.Generator) -> None:
        self.problem, self.rng = env.problem, rng
        costs = env.cost_table()
        self.schedule = Schedule.of(self.problem, costs, env.backend)
        self.hierarchy = coarsen(self.problem, costs, rng)
        self.level, self.groups = self.hierarchy.levels[0], Groups.of(self.hierarchy)
        self.labels = np.stack(
            [
                self.hierarchy.of_units(level) + self.groups.first_group[level]
                for level in range(len(self.hierarchy.levels))
            ]
        )
        self.best = np.empty(0, dtype=np.int64)
        self.best_ms = np.inf

    def start(self, placements: IntArray) -> None:
        """Start chains at the cheapest of (k, n_units) placements and plans that differ."""
        plans = place_by_terms(self.problem, self.hierarchy, TERMS, self.rng)
        pool = np.concatenate([placements, plans])
        costs_ms = self.estimate(pool)
        order = np.argsort(costs_ms, kind="stable")
        chosen = [order[0]]
        for i in order:
            differs = all((pool[i] != pool[j]).mean() > APART for j in chosen)
            if len(chosen) < CHAINS and differs and np.isfinite(costs_ms[i]):
                chosen.append(i)
        self.follow(pool[[chosen[i % len(chosen)] for i in range(CHAINS)]])

    def follow(self, placements: IntArray) -> None:
        """Begin one chain at each of (k, n_units) placements, the cheapest first."""
        limits = self.problem.limits_bytes
        self.best, self.best_ms = placements[0].copy(), float(self.estimate(placements[:1])[0])
        self.states = [make_state(self.level, one.copy(), limits) for one in placements]

    def follow_model(self, schedule: Schedule, placements: IntArray) -> None:
        """Go on under another model of the costs, from (k, n_units) placements as well.

        The cheapest of them and of the chains is the best; chains far behind continue from it.
        """
        self.schedule = schedule
        pool = np.concatenate([self.best[None], placements])
        costs_ms = self.estimate(pool)
        self.best, self.best_ms = pool[costs_ms.argmin()].copy(), float(costs_ms.min())

    def estimate(self, placements: IntArray) -> FloatArray:
        """(k,) what (k, n_units) placements cost in ms; infinite where a limit does not hold."""
        n_devices = len(self.problem.devices)
        held = self.problem.unit_bytes @ (placements[..., None] == np.arange(n_devices))
        fits = (held <= self.problem.limits_bytes).all(axis=1)
        return np.where(fits, estimate_all(self.schedule, placements), np.inf)

    def propose(
        self,
        preference: FloatArray,
        scorer: MoveScorer,
        heat: float,
        steps: int,
        log: Log | None = None,
    ) -> IntArray:
        """(n_chains, n_units) the cheapest placement that each chain reaches in some steps.

        Args:
            preference: (n_units, n_devices) of a network.
            scorer: Proposes moves.
            heat: Temperature, in log latency.
            steps: Moves of each chain.
            log: Filled with moves.
        """
        limits, ends = self.problem.limits_bytes, []
        log = make_log(0) if log is None else log
        for state in self.states:
            seed = int(self.rng.integers(2**31))
            ends.append(
                anneal(
                    self.level,
                    self.groups,
                    self.labels,
                    self.schedule,
                    limits,
                    state,
                    preference,
                    scorer,
                    steps,
                    heat,
                    seed,
                    log,
                )
            )
        self.keep_up(ends, heat)
        return np.stack([placement for _, placement in ends])

    def keep_up(self, ends: list[tuple[float, IntArray]], heat: float) -> None:
        """Let chains that are far behind continue from the best placement."""
        costs_ms = np.array([ms for ms, _ in ends])
        if costs_ms.min() < self.best_ms:
            self.best_ms = float(costs_ms.min())
            self.best = ends[int(costs_ms.argmin())][1]
        if not np.isfinite(self.best_ms):
            return
        for i in np.flatnonzero(np.log(costs_ms / self.best_ms) > LOST * heat):
            self.states[i] = make_state(self.level, self.best.copy(), self.problem.limits_bytes)


def cool(passed: float) -> float:
    """The temperature after a share of the horizon."""
    return float(HEAT[0] * (HEAT[1] / HEAT[0]) ** min(passed, 1.0))
