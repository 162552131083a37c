"""Pipelines: the contiguous split with the smallest maximum load, by dynamic programming.

An ideal is a set of units that contains all predecessors of its units; the units between two nested
ideals are contiguous. Each device runs such a difference, so that the best chain of ideals is the
best contiguous split (Tarnawski et al. 2020, section 5). Over all ideals that is exact, and
exponential in the graph's width; over the prefixes of one topological order it is the paper's DPL.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placement_gym.base import BoolArray, IntArray, UserError
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable, Semantics
from placement_gym.schedules import Simulator
from placement_gym.solvers import ROUNDING
from placement_gym.solvers.pipelines.contiguous import Split, SplitSearch
from placement_gym.solvers.pipelines.forward import Forward, merge_leaves
from placement_gym.solvers.pipelines.ideal_stages import ADDED
from placement_gym.solvers.pipelines.ideals import MAX_IDEALS, TooManyIdealsError


def exact_pipeline(problem: Problem, costs: CostTable, max_ideals: int = MAX_IDEALS) -> IntArray:
    """(n_units,) devices of the best contiguous split, the published DP.

    Of memory pools it keeps each device's own limit alone, and refuses a split that does not fit.
    Leaves without work join their neighbour where that is exact: without memory limits, or if the
    split is as good as it would be with leaves that take no memory.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        max_ideals: Maximum number of ideals.

    Raises:
        TooManyIdealsError: The graph has more than ``max_ideals`` ideals.
        PipelineMemoryError: The tables need more than ``MAX_BYTES``.
        ValueError: No contiguous split is feasible.
    """
    return narrow(SplitSearch(problem, costs, max_ideals), find_exact).device


def linear_pipeline(problem: Problem, costs: CostTable, transfers: int = ADDED) -> IntArray:
    """(n_units,) devices of the best split along one depth-first topological order, the DPL.

    Quadratic in the number of units. With transfers ``BY_CUT`` it is PipeDream's partitioner
    (Narayanan et al. 2019, section 3.1) without replication: a pipeline is as slow as its slowest
    stage, or as the slowest transfer between two of them.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        transfers: How they count, see ``StageCosts``.

    Raises:
        PipelineMemoryError: The tables need more than ``MAX_BYTES``.
        ValueError: No split along that order is feasible.
    """
    return narrow(SplitSearch(problem, costs, transfers=transfers), find_linear).device


def narrow(search: SplitSearch, solve: Callable[[SplitSearch], Split]) -> Split:
    """Search again below the load that was found while times are far above it.

    Raises:
        ValueError: There is no split.
    """
    while True:
        split = solve(search)
        if not np.isfinite(split.load_ms):
            raise UserError("no contiguous split fits the devices' memory and support")
        load_ms = split.load_ms
        if search.transfers == ADDED:  # without errors of differences
            load_ms = find_largest_load_ms(search.problem, search.costs, split.device)
        below = search.below(load_ms)
        if below is None:
            check_pools(search.problem, split)
            return split
        search = below


def check_pools(problem: Problem, split: Split) -> None:
    """Raise if devices that share memory hold too much: the search keeps each one's own limit.

    A split that fits nevertheless is the best one.

    Raises:
        UserError: It does not fit.
    """
    excess = problem.infeasibility(split.device) if problem.tight_pools else ""
    if excess:
        raise UserError(
            f"the best contiguous split by each device's own limit does not fit: {excess}; "
            "max_load with contiguous=True keeps the limits of pools"
        )


def find_linear(search: SplitSearch) -> Split:
    """The best split of a search along one order."""
    return search.linear(Forward.of(search.problem.units), search.problem.unit_bytes)


def find_exact(search: SplitSearch) -> Split:
    """The best contiguous split of a search; see ``exact_pipeline`` for the errors."""
    problem, costs = search.problem, search.costs
    forward = Forward.of(problem.units)
    merged, joined = merge_leaves(forward, problem, costs)
    held_bytes = problem.unit_bytes
    if (problem.limits_bytes >= held_bytes.sum()).all():
        return search.exact(merged, held_bytes)
    try:
        return search.exact(forward, held_bytes)
    except TooManyIdealsError:
        if not joined.any():
            raise
    return solve_merged(search, merged, joined)


def solve_merged(search: SplitSearch, merged: Forward, joined: BoolArray) -> Split:
    """The best split under memory limits if leaves have joined their neighbours.

    Raises:
        TooManyIdealsError: A split would be better if these leaves had no bytes.
    """
    held_bytes = search.problem.unit_bytes
    split = search.exact(merged, held_bytes)
    weightless = search.exact(merged, np.where(joined, 0.0, held_bytes))
    if weightless.load_ms < split.load_ms * (1.0 - ROUNDING):
        raise TooManyIdealsError(
            f"the graph has more than {search.max_ideals} ideals, and memory limits "
            "keep leaves from joining their neighbours: use the linear pipeline (dpl)"
        )
    return split


def find_largest_load_ms(problem: Problem, costs: CostTable, assignment: IntArray) -> float:
    """The largest load of a device, its stages and tensors that leave or enter it included."""
    simulator = Simulator(problem.units, costs, Semantics("load"))
    return simulator.latency_ms(assignment.astype(np.uint8))
