"""Pipelines: the contiguous split with the smallest maximum load, by dynamic programming.

An ideal is a set of units that contains all predecessors of its units; the units between two nested
ideals are contiguous. Each device runs such a difference, so that the best chain of ideals is the
best contiguous split (Tarnawski et al. 2020, section 5). Over all ideals that is exact, and
exponential in the graph's width; over the prefixes of one topological order it is the paper's DPL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.errors import UserError
from placement_gym.problem import Problem
from placement_gym.solvers.capacity import price_devices
from placement_gym.solvers.chains import Chains, Plan
from placement_gym.solvers.forward import Forward
from placement_gym.solvers.ideals import (
    MAX_IDEALS,
    Ideals,
    TooManyIdealsError,
    enumerate_ideals,
    enumerate_prefixes,
)
from placement_gym.solvers.kinds import Kinds, interchangeable_devices
from placement_gym.solvers.leaves import merge_leaves
from placement_gym.solvers.stages import (
    MAX_BYTES,
    PipelineMemoryError,
    compute_stages,
    sum_units,
)
from placement_gym.solvers.sweep import Report, find_chains

ROUNDING = 1e-9
"""Relative error of loads, at most."""
BYTES_PER_ENTRY = 32
"""Memory per tensor of a border while the arrays grow."""


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
    search = Search(problem, costs, max_ideals, threads, report)
    forward = Forward.of(problem.units)
    merged, joined = merge_leaves(forward, problem, costs)
    if (problem.limits_bytes >= problem.unit_bytes.sum()).all():
        return check(search.exact(merged)).device
    try:
        return check(search.exact(forward)).device
    except TooManyIdealsError:
        if not joined.any():
            raise
    return search.certified(merged, joined).device


def linear_pipeline(problem: Problem, costs: CostTable) -> IntArray:
    """(n_units,) devices of the best split along one depth-first topological order, the DPL.

    Quadratic in the number of units.

    Raises:
        PipelineMemoryError: The tables need more than ``MAX_BYTES``.
        ValueError: No split along that order is feasible.
    """
    search = Search(problem, costs)
    return check(search.linear(Forward.of(problem.units))).device


class Split(NamedTuple):
    """A contiguous split.

    Attributes:
        load_ms: Its largest load; infinite if none is known.
        device: (n_units,) device of each unit; empty if none is known.
    """

    load_ms: float
    device: IntArray


NO_SPLIT = Split(np.inf, np.empty(0, dtype=np.int64))


def check(split: Split) -> Split:
    """The split itself.

    Raises:
        ValueError: There is none.
    """
    if not np.isfinite(split.load_ms):
        raise UserError("no contiguous split fits the devices' memory and support")
    return split


@dataclass(frozen=True)
class Search:
    """The search for the best split of a problem; arguments as of ``exact_pipeline``."""

    problem: Problem
    costs: CostTable
    max_ideals: int = MAX_IDEALS
    threads: int = 1
    report: Report | None = None

    @cached_property
    def kinds(self) -> Kinds:
        return Kinds(interchangeable_devices(self.problem, self.costs))

    def linear(self, forward: Forward, held_bytes: FloatArray | None = None) -> Split:
        """The best split along one order."""
        return self.best(forward, enumerate_prefixes(forward.depth_first()), held_bytes)

    def exact(self, forward: Forward, held_bytes: FloatArray | None = None) -> Split:
        """The best split, which is that along one order if no other is better."""
        ideals = enumerate_ideals(forward, self.max_ideals)
        start = self.linear(forward, held_bytes)
        better = self.best(forward, ideals, held_bytes, start.load_ms, self.report)
        return min(start, better, key=lambda split: split.load_ms)

    def certified(self, forward: Forward, joined: BoolArray) -> Split:
        """The best split if leaves joined their neighbours in spite of their memory.

        Raises:
            TooManyIdealsError: A split would be better if these leaves took no memory.
        """
        split = self.exact(forward)
        without = np.where(joined, 0.0, self.problem.unit_bytes)
        if self.exact(forward, without).load_ms < split.load_ms * (1.0 - ROUNDING):
            raise TooManyIdealsError(
                f"the graph has more than {self.max_ideals} ideals, and memory limits "
                "keep leaves from joining their neighbours: use the linear pipeline (dpl)"
            )
        return split

    def best(
        self,
        forward: Forward,
        ideals: Ideals,
        held_bytes: FloatArray | None = None,
        cutoff_ms: float = np.inf,
        report: Report | None = None,
    ) -> Split:
        """The best split among chains of ideals; none is known if no load is below the cut-off."""
        held = self.problem.unit_bytes if held_bytes is None else held_bytes
        table_bytes = self.table_bytes(ideals)
        if table_bytes > MAX_BYTES:
            raise PipelineMemoryError(f"{len(ideals)} ideals, {self.kinds.n_states:.3g} states")
        most = (MAX_BYTES - table_bytes) // BYTES_PER_ENTRY
        stages = compute_stages(
            self.problem, self.costs, forward, ideals, self.kinds.first, held, most
        )
        plan = self.plan(forward, ideals, cutoff_ms)
        chains = find_chains(stages, plan, ideals.offsets, self.threads, report)
        return self.read_split(forward, ideals, chains)

    def table_bytes(self, ideals: Ideals) -> int:
        """Memory of all arrays but the borders."""
        n_words, n_kinds = ideals.words.shape[1], len(self.kinds.devices)
        return len(ideals) * (12 * self.kinds.n_states + 8 * n_words + 40 * n_kinds + 64)

    def plan(self, forward: Forward, ideals: Ideals, cutoff_ms: float) -> Plan:
        """What chains below the cut-off may use, and what they have to leave."""
        used = self.kinds.used
        left, room = np.zeros(len(ideals)), np.zeros(len(used))
        if np.isfinite(cutoff_ms):
            ms = np.where(self.problem.supported, self.costs.unit_ms(self.problem.units), np.inf)
            counts = self.kinds.counts
            prices, work = price_devices(ms[:, self.kinds.first], counts)
            total = sum_units(work[:, None], forward, ideals)[:, 0]
            left = total[-1] - total
            room = cutoff_ms * ((counts - used) @ prices) + ROUNDING * (cutoff_ms + total[-1])
        return Plan(ideals.smaller, used, self.kinds.stride, left, room, cutoff_ms)

    def read_split(self, forward: Forward, ideals: Ideals, chains: Chains) -> Split:
        """Follow the links of the best chain back."""
        used, stride = self.kinds.used, self.kinds.stride
        ideal, state = len(ideals) - 1, int(chains.best[-1].argmin())
        load_ms = float(chains.best[ideal, state])
        if not np.isfinite(load_ms):
            return NO_SPLIT
        device = np.empty(self.problem.n_units, dtype=np.int64)
        inside = ideals.nodes(ideal)
        while ideal:
            smaller, kind = divmod(int(chains.link[ideal, state]), len(stride))
            within = ideals.nodes(smaller)
            stage = (inside & ~within)[forward.node]
            device[stage] = self.kinds.devices[kind][used[state, kind] - 1]
            ideal, state, inside = smaller, state - int(stride[kind]), within
        return Split(load_ms, device)
