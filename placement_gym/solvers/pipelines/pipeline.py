"""Pipelines: the contiguous split with the smallest maximum load, by dynamic programming.

An ideal is a set of units that contains all predecessors of its units. Each device runs the units
between two nested ideals, so the best chain of ideals is the best contiguous split (Tarnawski et
al. 2020, section 5). Over all ideals that is exact, and exponential in the graph's width; over the
prefixes of one topological order it is the paper's DPL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, IntArray, UserError
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable, Semantics
from placement_gym.schedules import Simulator
from placement_gym.solvers import ROUNDING, Kinds, Linear, interchangeable_devices, minimize
from placement_gym.solvers.pipelines.forward import Forward, merge_leaves
from placement_gym.solvers.pipelines.ideal_chains import ChainLimits, ChainTable, find_chains
from placement_gym.solvers.pipelines.ideal_stages import (
    ADDED,
    PipelineMemoryError,
    compute_stages,
    sum_units,
)
from placement_gym.solvers.pipelines.ideals import (
    MAX_BYTES,
    MAX_IDEALS,
    Ideals,
    TooManyIdealsError,
    enumerate_ideals,
    enumerate_prefixes,
)

MAX_TIME_RATIO = 1e6
"""Largest ratio of a time to a load for which loads, as differences of sums of times, are accurate.
Hand-tuned."""
FEW_IDEALS = 256
"""Number of ideals up to which all pairs take less time than finding a cut-off. Hand-tuned."""
GUESSES = (1.25, 2.0, 4.0)
"""Cut-offs to try without a known split, relative to the load with divided units. Hand-tuned."""
BYTES_PER_ENTRY = 32
"""Memory per tensor of a border while the arrays grow."""


def exact_pipeline(problem: Problem, costs: CostTable, max_ideals: int = MAX_IDEALS) -> IntArray:
    """(n_units,) devices of the best contiguous split, the published DP.

    Leaves without work join their neighbour if that is exact: without memory limits, or if the
    split is as good as with leaves that take no memory. Of memory pools only each device's own
    limit counts. Raises a ``UserError`` if no split is feasible or the best one does not fit its
    pools, ``TooManyIdealsError`` above ``max_ideals`` ideals, and ``PipelineMemoryError`` if the
    tables need more than ``MAX_BYTES``.
    """
    return narrow(SplitSearch(problem, costs, max_ideals), find_exact).device


def linear_pipeline(problem: Problem, costs: CostTable, transfers: int = ADDED) -> IntArray:
    """(n_units,) devices of the best split along one depth-first topological order, the DPL.

    Quadratic in the number of units. With transfers ``BY_CUT`` it is PipeDream's partitioner
    (Narayanan et al. 2019, section 3.1) without replication: a pipeline is as slow as its slowest
    stage or transfer between two of them. Raises a ``UserError`` if no split along that order is
    feasible or the tables need more than ``MAX_BYTES``.
    """
    return narrow(SplitSearch(problem, costs, transfers=transfers), find_linear).device


def narrow(search: SplitSearch, solve: Callable[[SplitSearch], Split]) -> Split:
    """Search, and again below the load found while some times are far above it.

    The search subtracts sums of times, and large ones cost small ones their digits.
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
            break
        search = below
    # The search keeps only each device's own limit; a split that also fits pools is best.
    if search.problem.tight_pools and (excess := search.problem.infeasibility(split.device)):
        raise UserError(
            f"the best contiguous split by each device's own limit does not fit: {excess}; "
            "max_load with contiguous=True keeps the limits of pools"
        )
    return split


def find_linear(search: SplitSearch) -> Split:
    """The best split of a search along one order."""
    return search.linear(Forward.from_units(search.problem.units), search.problem.unit_bytes)


def find_exact(search: SplitSearch) -> Split:
    """The best contiguous split of a search; errors as for ``exact_pipeline``."""
    problem, costs = search.problem, search.costs
    forward = Forward.from_units(problem.units)
    merged, joined = merge_leaves(forward, problem, costs)
    held_bytes = problem.unit_bytes
    if (problem.limits_bytes >= held_bytes.sum()).all():
        return search.exact(merged, held_bytes)
    try:
        return search.exact(forward, held_bytes)
    except TooManyIdealsError:
        if not joined.any():
            raise
    # Under memory limits, joining leaves to their neighbours must not have lost anything.
    split = search.exact(merged, held_bytes)
    weightless = search.exact(merged, np.where(joined, 0.0, held_bytes))
    if weightless.load_ms < split.load_ms * (1.0 - ROUNDING):
        raise TooManyIdealsError(
            f"the graph has more than {search.max_ideals} ideals, and memory limits "
            "keep leaves from joining their neighbours: use the linear pipeline (dpl)"
        )
    return split


def find_largest_load_ms(problem: Problem, costs: CostTable, assignment: IntArray) -> float:
    """The largest load of a device, including its stages and tensors that leave or enter it."""
    simulator = Simulator(problem.units, costs, Semantics("load"))
    return simulator.latency_ms(assignment.astype(np.uint8))


class Split(NamedTuple):
    """A contiguous split."""

    load_ms: float  # its largest load; infinite if none is known
    device: IntArray  # (n_units,) device of each unit; empty if no split is known


@dataclass(frozen=True)
class SplitSearch:
    """The search for the best split of at most ``most_ms``; arguments as for ``exact_pipeline``."""

    problem: Problem
    costs: CostTable
    max_ideals: int = MAX_IDEALS
    most_ms: float = np.inf
    transfers: int = ADDED

    def below(self, load_ms: float) -> SplitSearch | None:
        """The search up to a known load; None if that is zero or accurate already."""
        unit_ms, border_ms = self.costs.unit_ms(self.problem.units), self.costs.boundary_ms
        largest_ms = max(float(unit_ms.max()), float(border_ms.max(initial=0.0)))
        if load_ms == 0.0 or min(largest_ms, self.most_ms) <= MAX_TIME_RATIO * load_ms:
            return None
        return replace(self, most_ms=load_ms * (1.0 + ROUNDING))

    @cached_property
    def kinds(self) -> Kinds:
        return Kinds(interchangeable_devices(self.problem, self.costs))

    @cached_property
    def prices(self) -> tuple[FloatArray, FloatArray]:
        """(n_kinds,) price of a device's millisecond and (n_units,) priced work."""
        ms = self.costs.unit_ms(self.problem.units)
        ms = np.where(self.problem.supported & (ms <= self.most_ms), ms, np.inf)
        return price_devices(ms[:, self.kinds.first], self.kinds.counts)

    def linear(self, forward: Forward, held_bytes: FloatArray) -> Split:
        """The best split along one order."""
        return self.best(forward, enumerate_prefixes(forward.depth_first()), held_bytes)

    def exact(self, forward: Forward, held_bytes: FloatArray) -> Split:
        """The best split; that along one order if no other is better."""
        ideals = enumerate_ideals(forward, self.max_ideals)
        if len(ideals) <= FEW_IDEALS:
            return self.best(forward, ideals, held_bytes)
        start = self.linear(forward, held_bytes)
        # Search below the known split, or below guesses until one is found.
        guesses = [*(guess * float(self.prices[1].sum()) for guess in GUESSES), np.inf]
        for cutoff_ms in [start.load_ms] if np.isfinite(start.load_ms) else guesses:
            split = self.best(forward, ideals, held_bytes, cutoff_ms)
            if split.load_ms < cutoff_ms:
                return split
        return start

    def best(
        self, forward: Forward, ideals: Ideals, held_bytes: FloatArray, cutoff_ms: float = np.inf
    ) -> Split:
        """The best split among chains of ideals whose load is below a cut-off.

        ``held_bytes`` is (n_units,), zero for leaves that take no memory.
        """
        # all arrays but the borders
        n_words, n_kinds = ideals.words.shape[1], len(self.kinds.devices)
        ideal_bytes = 12 * self.kinds.n_states + 16 * n_words + 64 * n_kinds + 80
        table_bytes = len(ideals) * ideal_bytes
        if table_bytes > MAX_BYTES:
            raise PipelineMemoryError(f"{len(ideals)} ideals, {self.kinds.n_states:.3g} states")
        most = (MAX_BYTES - table_bytes) // BYTES_PER_ENTRY
        stages = compute_stages(
            self.problem,
            self.costs,
            forward,
            ideals,
            self.kinds.first,
            held_bytes,
            most,
            self.most_ms,
            self.transfers,
        )
        chains = find_chains(stages, self.plan(forward, ideals, cutoff_ms), ideals.offsets)
        return self.read_split(forward, ideals, chains)

    def plan(self, forward: Forward, ideals: Ideals, cutoff_ms: float) -> ChainLimits:
        """Limits of chains below the cut-off; none if it is infinite."""
        used = self.kinds.used
        left, room = np.zeros(len(ideals)), np.zeros(len(used))
        if np.isfinite(cutoff_ms):
            prices, work = self.prices
            total = sum_units(work[:, None], forward, ideals)[:, 0]
            left = total[-1] - total
            room = cutoff_ms * ((self.kinds.counts - used) @ prices)
            room += ROUNDING * (cutoff_ms + total[-1])
        return ChainLimits(used, self.kinds.stride, left, room, cutoff_ms)

    def read_split(self, forward: Forward, ideals: Ideals, chains: ChainTable) -> Split:
        """Follow the links of the best chain back."""
        used, stride = self.kinds.used, self.kinds.stride
        ideal, state = len(ideals) - 1, int(chains.best[-1].argmin())
        load_ms = float(chains.best[ideal, state])
        if not np.isfinite(load_ms):
            return Split(np.inf, np.empty(0, dtype=np.int64))
        device = np.empty(self.problem.n_units, dtype=np.int64)
        inside = ideals.nodes(ideal)
        while ideal:
            smaller, kind = divmod(int(chains.link[ideal, state]), len(stride))
            within = ideals.nodes(smaller)
            last = self.kinds.devices[kind][used[state, kind] - 1]
            device[(inside & ~within)[forward.node]] = last
            ideal, state, inside = smaller, state - int(stride[kind]), within
        return Split(load_ms, device)


def price_devices(ms: FloatArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Price a millisecond of each kind of device, and each unit's work by the cheapest kind.

    For any prices, work of some units cannot exceed the largest load times the price of all devices
    that share it. These prices, an optimal dual solution of the load with divided units, make that
    tightest. Those of (n_kinds,) ``counts`` of devices add up to 1; (n_units, n_kinds) times are
    infinite where the kind does not support the unit.
    """
    program = Linear()
    price = program.variables(len(counts))
    work = program.variables(len(ms), cost=-1.0, in_ms=True)
    unit, kind = np.nonzero(np.isfinite(ms))
    program.require((work[unit], 1.0), (price[kind], -ms[unit, kind]), rows=len(unit))
    program.require((price[None], counts), rows=1, low=1.0, high=1.0)
    values = minimize(program).values
    prices = np.ones(len(counts)) if values is None else np.maximum(values[price], 0.0)
    possible = np.isfinite(ms)
    priced = np.where(possible, np.where(possible, ms, 0.0) * prices, np.inf)
    return prices, priced.min(axis=1)
