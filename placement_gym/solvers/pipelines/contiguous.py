"""The best contiguous split of a problem among given chains of ideals, or among all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import ROUNDING, Kinds, Linear, interchangeable_devices, minimize
from placement_gym.solvers.pipelines.forward import Forward
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
    enumerate_ideals,
    enumerate_prefixes,
)

MAX_TIME_RATIO = 1e6
"""Largest ratio of a time to a load for which loads, as differences of sums of times, are
accurate: ours."""
FEW_IDEALS = 256
"""Number of ideals up to which all pairs take less time than finding a cut-off: ours."""
GUESSES = (1.25, 2.0, 4.0)
"""Cut-offs to try without a known split, over the load if units could be divided: ours."""
BYTES_PER_ENTRY = 32
"""Memory per tensor of a border while the arrays grow."""


class Split(NamedTuple):
    """A contiguous split.

    Attributes:
        load_ms: Its largest load; infinite if none is known.
        device: (n_units,) device of each unit; empty if no split is known.
    """

    load_ms: float
    device: IntArray


NO_SPLIT = Split(np.inf, np.empty(0, dtype=np.int64))


@dataclass(frozen=True)
class SplitSearch:
    """The search for the best split; arguments are those of ``exact_pipeline``.

    Attributes:
        most_ms: Only splits of at most this load are looked for.
        transfers: How they count, see ``StageCosts``.
    """

    problem: Problem
    costs: CostTable
    max_ideals: int = MAX_IDEALS
    most_ms: float = np.inf
    transfers: int = ADDED

    def below(self, load_ms: float) -> SplitSearch | None:
        """The search for splits up to a load that is known.

        None if it is zero, or times are not so far above it that its error would matter: loads are
        differences of sums of all times.
        """
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
        for cutoff_ms in self.cutoffs(start):
            split = self.best(forward, ideals, held_bytes, cutoff_ms)
            if split.load_ms < cutoff_ms:
                return split
        return start

    def cutoffs(self, start: Split) -> Iterator[float]:
        """Loads below which splits are looked for, until one is found."""
        if np.isfinite(start.load_ms):
            yield start.load_ms
            return
        for guess in GUESSES:
            yield guess * float(self.prices[1].sum())
        yield np.inf

    def best(
        self, forward: Forward, ideals: Ideals, held_bytes: FloatArray, cutoff_ms: float = np.inf
    ) -> Split:
        """The best split among chains of ideals whose load is below a cut-off.

        Args:
            forward: The graph of which these are ideals.
            ideals: See ``Ideals``.
            held_bytes: (n_units,) memory of each unit.
            cutoff_ms: Infinite for all chains.

        Raises:
            PipelineMemoryError: The tables need more than ``MAX_BYTES``.
        """
        table_bytes = self.table_bytes(ideals)
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

    def table_bytes(self, ideals: Ideals) -> int:
        """Memory of all arrays but the borders."""
        n_words, n_kinds = ideals.words.shape[1], len(self.kinds.devices)
        return len(ideals) * (12 * self.kinds.n_states + 16 * n_words + 64 * n_kinds + 80)

    def plan(self, forward: Forward, ideals: Ideals, cutoff_ms: float) -> ChainLimits:
        """Return what chains below the cut-off may use and must leave."""
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
            return NO_SPLIT
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
    """Price a millisecond of each kind of device, and the work of each unit by the cheapest kind.

    For any prices, work of some units cannot exceed the largest load times the price of all devices
    that share it. These prices, an optimal dual solution of the load that divided units
    would give, make that tightest for all units and devices.

    Args:
        ms: (n_units, n_kinds) times, infinite where the kind does not support the unit.
        counts: (n_kinds,) number of devices; their prices add up to 1.

    Returns:
        (n_kinds,) prices; (n_units,) priced work.
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
