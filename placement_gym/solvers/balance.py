"""Placements with a small largest load, contiguous or not, by annealing of the loads themselves.

A move changes two devices, so that it takes about a microsecond, however many devices there are.
"""

from __future__ import annotations

import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.costs.table import CostTable
from placement_gym.errors import UserError
from placement_gym.problem import Problem
from placement_gym.solvers.balance_kernel import Terms, anneal
from placement_gym.solvers.fill import fill_in_order
from placement_gym.solvers.pipelines.pipeline import linear_pipeline
from placement_gym.solvers.pipelines.touches import find_touch_sets
from placement_gym.solvers.repair import RepairPrices, repair

N_MOVES = 1_000_000


def balance_loads(
    problem: Problem,
    costs: CostTable,
    start: IntArray,
    seed: int = 0,
    n_moves: int = N_MOVES,
) -> IntArray:
    """(n_units,) devices of the best placement seen; never a larger load than the start's.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        start: (n_units,) devices that are feasible.
        seed: Of the random numbers.
        n_moves: Number of moves.
    """
    terms = make_terms(problem, costs)
    return anneal(terms, start.astype(np.int64), n_moves, seed)[0]


def find_start(problem: Problem, costs: CostTable) -> IntArray:
    """(n_units,) devices to anneal from: a contiguous split, or a repaired filling if none fits.

    Raises:
        UserError: Neither is feasible.
    """
    try:
        start = linear_pipeline(problem, costs)
    except UserError:
        start = fill_in_order(problem, costs)
    prices = RepairPrices.of(problem, costs)
    start = repair(problem, start[None], prices.unit_ms, prices.links)[0]
    if error := problem.infeasibility(start):
        raise UserError(f"no split that fits the devices' memory and support was found: {error}")
    return start


def make_terms(problem: Problem, costs: CostTable) -> Terms:
    """Arrays for the kernel; tensors that the same units touch are one."""
    n = problem.n_units
    border_ms = find_touch_sets(problem, costs, np.arange(n))
    tensor = np.repeat(np.arange(len(border_ms)), [len(units) for units in border_ms])
    unit = np.array([u for units in border_ms for u in sorted(units)], dtype=np.int64)
    by_unit = np.argsort(unit, kind="stable")
    return Terms(
        ms=costs.unit_ms(problem.units),
        possible=problem.possible,
        held=problem.unit_bytes.astype(np.float64),
        limit=problem.limits_bytes.astype(np.float64),
        owner=problem.memory.owner,
        begin=np.searchsorted(unit[by_unit], np.arange(n + 1)),
        touched=tensor[by_unit],
        first=np.searchsorted(tensor, np.arange(len(border_ms) + 1)),
        toucher=unit,
        border_ms=np.array(list(border_ms.values())).reshape(-1, len(problem.devices)),
    )
