"""Large-neighbourhood search: a block of units is freed and rebuilt, and kept if that is faster.

Shaw 1998. Blocks are windows of the rank order or random units. They are rebuilt by noisy list
scheduling until that no longer helps, and then by a program, which may also prove that nothing
better exists. Blocks grow after such a proof, and shrink when the program reaches its limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement_gym.arrays import BoolArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.levels.coarsen import coarsen
from placement_gym.solvers.levels.levels import Level
from placement_gym.solvers.levels.models import BY_RANK, Operators, choose_model, estimate_ms
from placement_gym.solvers.levels.pricing import Pricing, PricingTerms
from placement_gym.solvers.list_scheduling import MANY_UNITS, critical_path, heft, m_etf
from placement_gym.solvers.proposals import Found, Proposals
from placement_gym.solvers.rebuild import (
    MAX_OPERATORS,
    Program,
    make_program,
    rebuild_greedily,
)

TERMS = (
    PricingTerms(1.0, 0.0),
    PricingTerms(0.3, 0.0),
    PricingTerms(0.3, 1.0),
    PricingTerms(0.3, 3.0),
    PricingTerms(0.03, 3.0),
)
WINDOW, TWO_WINDOWS = 0.5, 0.8
"""Shares of blocks that are a window, and of those that are one or two; others are random."""
FIRST_SHARE = 0.15
SHARES = (0.02, 1.0)
LARGER, SMALLER = 1.1, 0.85
CONFIDENCE = 2.0
"""A rebuilt block is evaluated if its estimate is slower by at most this many model errors."""
MOST_UNEVALUATED = 20
"""Consecutive rebuilds that may go without an evaluation, so that the budget ends the search."""


@dataclass(frozen=True)
class Settings:
    """How blocks are rebuilt.

    Attributes:
        max_nodes: Maximum number of nodes of the search tree of one program; None for no limit.
        programs: Maximum number of programs.
        time_limit_s: Wall-clock limit of one program. Equal seeds find equal placements unless it
            ends a program.
        patience: Rebuilds by list scheduling without gain before a program.
        samples: List schedules for one rebuild.
    """

    max_nodes: int | None = 20
    programs: int = 40
    time_limit_s: float = 60.0
    patience: int = 8
    samples: int = 30


DEFAULT = Settings()


def search(
    problem: Problem,
    costs: CostTable,
    rng: np.random.Generator,
    settings: Settings = DEFAULT,
    program: Program | None = None,
) -> Proposals:
    """Propose heuristics, then rebuilt placements, indefinitely.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        rng: Source of all random choices.
        settings: How blocks are rebuilt.
        program: Rebuilds blocks; None takes the program of the model that agrees best with the
            heuristics' latencies.
    """
    starts = propose_starts(problem, costs, rng)
    latencies = yield starts
    operators = Operators.of(problem, costs)
    model, error = choose_model(operators, starts, latencies)
    if program is None and len(operators.unit) <= MAX_OPERATORS:
        limits = settings.time_limit_s, settings.max_nodes
        program = make_program(problem, costs, operators, model, *limits)
    found = Found()
    found.add(starts, latencies)
    best = found.best(1)[0]
    yield from improve(
        BlockSampler(problem, operators, rng),
        Rebuilder(problem, costs, operators, model, error, program, settings, rng),
        found.placements[best],
        found.latencies[best],
    )


def propose_starts(problem: Problem, costs: CostTable, rng: np.random.Generator) -> IntArray:
    """(k, n_units) placements of list schedulers, and of the multilevel placer's first part."""
    pricing = Pricing(coarsen(problem, costs, rng), problem.limits_bytes, rng)
    placements = [pricing.place(terms) for terms in TERMS]
    if problem.n_units <= MANY_UNITS:
        placements += [solver(problem, costs) for solver in (heft, m_etf, critical_path)]
    return np.stack(placements)


class BlockSampler:
    """Draws blocks of units; their share of all units follows what rebuilding them achieves.

    Args:
        problem: The units.
        operators: Their operators in rank order.
        rng: Source of all random choices.
    """

    def __init__(self, problem: Problem, operators: Operators, rng: np.random.Generator) -> None:
        self.rng, self.share = rng, FIRST_SHARE
        position = np.full(problem.n_units, len(operators.unit))
        order = operators.orders[BY_RANK - 1]
        np.minimum.at(position, operators.unit[order], np.arange(len(order)))
        self.order = np.argsort(position, kind="stable")

    def draw(self) -> BoolArray:
        """(n_units,) bool, a window of the rank order, two windows, or random units."""
        n, kind = len(self.order), self.rng.random()
        size = min(max(int(self.share * n), 2), n)
        free = np.zeros(n, dtype=np.bool_)
        if kind < WINDOW:
            free[self.window(size)] = True
        elif kind < TWO_WINDOWS:
            free[self.window(size // 2)] = free[self.window(size - size // 2)] = True
        else:
            free[self.rng.permutation(n)[:size]] = True
        return free

    def window(self, size: int) -> IntArray:
        """(size,) consecutive units of the rank order."""
        begin = int(self.rng.integers(len(self.order) - size + 1))
        return self.order[begin : begin + size]

    def resize(self, factor: float) -> None:
        """Change the share, within its limits."""
        self.share = float(np.clip(self.share * factor, *SHARES))


class Rebuilder:
    """Rebuilds blocks, by list scheduling or by a program.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        operators: What the model computes with.
        model: The model of the latency.
        error: Its mean error as a share of the latency.
        program: Rebuilds blocks; None if there is none.
        settings: How blocks are rebuilt.
        rng: Source of all random choices.
    """

    def __init__(
        self,
        problem: Problem,
        costs: CostTable,
        operators: Operators,
        model: int,
        error: float,
        program: Program | None,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        self.problem, self.operators, self.model = problem, operators, model
        self.error, self.program, self.settings, self.rng = error, program, settings, rng
        self.level = Level.of_units(problem, costs)
        self.programs_solved, self.optimal = 0, False

    @property
    def may_solve(self) -> bool:
        """Whether there is a program that may be solved, and no proof that nothing is better."""
        allowed = self.programs_solved < self.settings.programs
        return self.program is not None and allowed and not self.optimal

    def rebuild(self, place: IntArray, free: BoolArray) -> IntArray | None:
        """The block after list scheduling; None if the model sees no chance of a gain."""
        limits, samples = self.problem.limits_bytes, self.settings.samples
        found, found_ms = rebuild_greedily(
            self.level, self.operators, self.model, place, free, limits, samples, self.rng
        )
        now_ms = estimate_ms(self.operators, self.model, place)
        hopeless = found_ms > now_ms * (1.0 + CONFIDENCE * self.error)
        return None if hopeless or (found == place).all() else found

    def solve(self, place: IntArray, blocks: BlockSampler) -> IntArray | None:
        """A block that the program has rebuilt; None if it found nothing better."""
        assert self.program is not None
        self.programs_solved += 1
        upper_ms = estimate_ms(self.operators, self.model, place)
        free = blocks.draw()
        solution = self.program(place, free, upper_ms)
        found = solution.assignment
        if found is not None and (found != place).any():
            return found
        proven = solution.proven or solution.bound_ms >= upper_ms * (1.0 - 1e-6)
        self.optimal = proven and bool(free.all())
        blocks.resize(LARGER if proven else SMALLER)
        return None


def improve(
    blocks: BlockSampler, rebuilder: Rebuilder, place: IntArray, latency: float
) -> Proposals:
    """Rebuild block after block, and keep what is not slower."""
    fruitless = unevaluated = 0
    while True:
        found = rebuilder.rebuild(place, blocks.draw())
        if found is None and fruitless >= rebuilder.settings.patience and rebuilder.may_solve:
            found = rebuilder.solve(place, blocks)
        if found is None and unevaluated < MOST_UNEVALUATED:
            fruitless, unevaluated = fruitless + 1, unevaluated + 1
            continue
        unevaluated = 0
        found = place if found is None else found
        reached = float((yield found[None])[0])
        fruitless = 0 if reached < latency else fruitless + 1
        if reached <= latency:
            place, latency = found, reached
