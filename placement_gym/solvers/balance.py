"""Placements with a small largest load, contiguous or not: one long chain of the search's moves."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.problem.costs.semantics import parse_schedule
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.heuristics import propose_simple
from placement_gym.solvers.repair import RepairPrices, repair
from placement_gym.solvers.search.chains import Chains

N_MOVES = 500_000
"""Moves that are tried: ours, one to four seconds."""
START_TEMPERATURE, COOLING_FACTOR, N_COOLINGS = 0.01, 0.955, 100
"""First temperature, as a share of the largest load; the factor by which it falls, and how often:
ours."""


def balance_loads(
    problem: Problem, costs: CostTable, start: IntArray, seed: int = 0, n_moves: int = N_MOVES
) -> IntArray:
    """(n_units,) devices of the best placement seen; never a larger load than the start's.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        start: (n_units,) devices that are feasible.
        seed: Of the random numbers.
        n_moves: Number of moves, each of which takes some microseconds.
    """
    semantics = parse_schedule("tarnawski-throughput", "throughput")
    chains = Chains(
        problem, Simulator(problem.units, costs, semantics), np.random.default_rng(seed)
    )
    state = chains.start(start)
    temperature = START_TEMPERATURE
    for begin, end in pairwise(n_moves * step // N_COOLINGS for step in range(N_COOLINGS + 1)):
        chains.anneal(state, end - begin, (temperature, temperature))
        temperature *= COOLING_FACTOR
    return state.best.astype(np.int64)


def find_start(problem: Problem, costs: CostTable) -> IntArray:
    """(n_units,) devices to anneal from: a contiguous split, or a repaired filling if none fits.

    Raises:
        UserError: Neither is feasible.
    """
    _, start = next(propose_simple(problem, costs, "dpl", "fill-in-order"))
    start = repair(problem, start[None], RepairPrices.of(problem, costs))[0]
    if error := problem.infeasibility(start):
        raise UserError(f"no split that fits the devices' memory and support was found: {error}")
    return start
