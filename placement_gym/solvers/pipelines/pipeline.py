"""Pipelines: the contiguous split with the smallest maximum load, by dynamic programming.

An ideal is a set of units that contains all predecessors of its units; the units between two nested
ideals are contiguous. Each device runs such a difference, so that the best chain of ideals is the
best contiguous split (Tarnawski et al. 2020, section 5). Over all ideals that is exact, and
exponential in the graph's width; over the prefixes of one topological order it is the paper's DPL.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placement_gym.base.arrays import BoolArray, IntArray
from placement_gym.base.errors import UserError
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.forward import Forward
from placement_gym.solvers.loads import find_largest_load_ms
from placement_gym.solvers.pipelines.contiguous import ROUNDING, Search, Split
from placement_gym.solvers.pipelines.ideals import MAX_IDEALS, TooManyIdealsError
from placement_gym.solvers.pipelines.leaves import merge_leaves
from placement_gym.solvers.pipelines.sweep import Report


def exact_pipeline(
    problem: Problem,
    costs: CostTable,
    max_ideals: int = MAX_IDEALS,
    threads: int = 1,
    report: Report | None = None,
) -> IntArray:
    """(n_units,) devices of the best contiguous split, the published DP.

    Leaves without work join their neighbour where that is exact: without memory limits, or if the
    split is as good as it would be with leaves that take no memory.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        max_ideals: Maximum number of ideals.
        threads: How many ideals of one size are extended at a time.
        report: Called with the number of ideals done and that of all.

    Raises:
        TooManyIdealsError: The graph has more than ``max_ideals`` ideals.
        PipelineMemoryError: The tables need more than ``MAX_BYTES``.
        ValueError: No contiguous split is feasible.
    """

    def solve(search: Search) -> IntArray:
        return read_devices(find_exact(search))

    return narrow(Search(problem, costs, max_ideals, threads, report), solve)


def narrow(search: Search, solve: Callable[[Search], IntArray]) -> IntArray:
    """Search again below the load that was found while times are far above it."""
    while True:
        device = solve(search)
        below = search.below(find_largest_load_ms(search.problem, search.costs, device))
        if below is None:
            return device
        search = below


def find_exact(search: Search) -> Split:
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


def solve_merged(search: Search, merged: Forward, joined: BoolArray) -> Split:
    """The best split under memory limits if leaves have joined their neighbours.

    Raises:
        TooManyIdealsError: A split would be better if these leaves took no memory.
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


def linear_pipeline(problem: Problem, costs: CostTable) -> IntArray:
    """(n_units,) devices of the best split along one depth-first topological order, the DPL.

    Quadratic in the number of units.

    Raises:
        PipelineMemoryError: The tables need more than ``MAX_BYTES``.
        ValueError: No split along that order is feasible.
    """
    forward = Forward.of(problem.units)

    def solve(search: Search) -> IntArray:
        return read_devices(search.linear(forward, problem.unit_bytes))

    return narrow(Search(problem, costs), solve)


def read_devices(split: Split) -> IntArray:
    """The devices of a split.

    Raises:
        ValueError: There is no split.
    """
    if not np.isfinite(split.load_ms):
        raise UserError("no contiguous split fits the devices' memory and support")
    return split.device
