"""Partial placements of an event or list schedule, grown task by task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.problem.costs.semantics import Semantics
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.beams.expansion import (
    CODED_DEVICES,
    MAX_SLOTS,
    Layer,
    expand,
    merge_alike,
)
from placement_gym.solvers.beams.frontier import Frontier, find_tiny
from placement_gym.solvers.beams.potentials import Potentials
from placement_gym.solvers.beams.prices import find_prices
from placement_gym.solvers.kinds import interchangeable_devices
from placement_gym.solvers.programs.load_cuts import MAX_TASKS
from placement_gym.solvers.tasks import Tasks

MAX_STATES = 100_000


class Grower:
    """Places one task after another in all partial placements that are kept.

    The latency is exact for a list schedule without contention, gaps and tiny tasks; otherwise it
    is a lower bound.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        semantics: What the latency means.
        end: When to stop, by ``perf_counter``.
        merged: Partial placements are merged if none of the times and bytes of one exceeds the
            other's by more than this share of the latency or limit. This lowers bounds a little;
            zero keeps the latency exact.
    """

    def __init__(
        self,
        problem: Problem,
        costs: CostTable,
        semantics: Semantics,
        end: float,
        merged: float = 0.0,
    ) -> None:
        self.problem, self.costs, self.order = problem, costs, semantics.order
        self.merged = merged
        self.ordered = semantics.schedule == "list"
        tasks = Tasks.of_operators(problem.units, costs)
        order = list_order(tasks, semantics.order)
        tiny = find_tiny(problem, tasks)
        self.tasks = replace(tasks, ms=np.where((tiny[0] | tiny[1])[:, None], 0.0, tasks.ms))
        self.frontier = Frontier.of(problem, self.tasks, order, tiny)
        self.alike = np.full(len(problem.devices), -1)
        for group in interchangeable_devices(problem, costs, tasks.transfer_ms):
            self.alike[group[1:]] = group[:-1]
        self.potentials: Potentials | None = None
        self.bound_ms = 0.0
        if self.is_narrow:
            cuts, sets, self.bound_ms = find_prices(problem, self.tasks, end)
            if sets:
                self.potentials = Potentials.of(problem, self.frontier, cuts, sets)
                self.tail = find_tails(self.frontier)

    @property
    def is_narrow(self) -> bool:
        """True if few enough tasks are live at a time, on few enough devices, to be searched."""
        n_devices, most = len(self.problem.devices), int(np.diff(self.frontier.first_live).max())
        fits = self.frontier.n_slots <= MAX_SLOTS and n_devices <= CODED_DEVICES
        return fits and n_devices**most <= MAX_STATES and len(self.tasks) <= MAX_TASKS

    def first_layer(self) -> Layer:
        """The empty placement."""
        assert self.potentials is not None
        n_devices = len(self.problem.devices)
        n_sets, _, n_cuts = self.potentials.cut.shape
        n_values = self.tail.shape[1] + 2 * n_devices + 1 + n_cuts + n_sets
        return Layer(
            np.zeros(1, np.uint64),
            np.zeros((1, n_values)),
            np.zeros(1),
            np.zeros(1, np.int32),
            np.zeros(1, np.int8),
        )

    def advance(self, step: int, layer: Layer, width: int, upper_ms: float) -> tuple[Layer, float]:
        """Place one more task; returns the best partial placements and the lowest bound dropped."""
        assert self.potentials is not None
        count, grown = expand(
            self.frontier,
            self.potentials,
            self.tail,
            self.alike,
            self.problem.limits_bytes,
            self.ordered,
            step,
            layer,
            upper_ms,
        )
        return self.keep_best(grown.take(slice(count)), width)

    def keep_best(self, layer: Layer, width: int) -> tuple[Layer, float]:
        """Merge partial placements, and drop those of the highest bounds; see ``advance``.

        Args:
            layer: Partial placements; its values and bounds change.
            width: How many are kept.
        """
        assert self.potentials is not None
        by_code = np.lexsort((layer.bound, layer.code))
        n_times, memory = self.tail.shape[1] + len(self.alike), self.potentials.memory
        slack = self.slack(layer)
        kept = np.flatnonzero(merge_alike(layer, by_code, self.compared, slack, memory, n_times))
        if len(kept) <= width:
            return layer.take(kept), np.inf
        kept = kept[np.argsort(layer.bound[kept], kind="stable")]
        return layer.take(kept[:width]), float(layer.bound[kept[width]])

    def slack(self, layer: Layer) -> FloatArray:
        """(n_values,) difference in each value that merging ignores."""
        n_slots, n_devices = self.tail.shape[1:]
        slack = np.zeros(layer.values.shape[1])
        slack[: n_slots + n_devices] = self.bound_ms
        slack[n_slots + 2 * n_devices] = self.bound_ms
        limits = self.problem.limits_bytes
        in_use = slack[n_slots + n_devices : n_slots + 2 * n_devices]
        in_use[:] = np.where(np.isfinite(limits), limits, 0.0)
        return self.merged * slack

    @property
    def compared(self) -> IntArray:
        """Columns of values in which a larger number is worse."""
        n_slots, n_devices = self.tail.shape[1:]
        memory_at = n_slots + n_devices
        limited = np.flatnonzero(np.isfinite(self.problem.limits_bytes))
        latest = memory_at + n_devices
        return np.concatenate([np.arange(memory_at), memory_at + limited, [latest]])


def list_order(tasks: Tasks, order: str) -> IntArray:
    """(n_tasks,) operators in the order in which a list schedule runs them."""
    if order == "fifo":
        return np.arange(len(tasks))
    return tasks.rank_order()


def find_tails(frontier: Frontier, beyond: ArrayLike = 0.0) -> FloatArray:
    """(n + 1, n_slots, n_devices) least time that follows the finish in each slot, by step, ms.

    Args:
        frontier: The steps.
        beyond: (n_devices,) least time after the last step.
    """
    n, d = frontier.ms.shape
    after = np.zeros((n, d))
    after[-1] = beyond
    reader = np.repeat(np.arange(n), np.diff(frontier.first_read))
    tail = np.zeros((n + 1, max(frontier.n_slots, 1), d))
    for r in range(len(reader) - 1, -1, -1):
        step, maker = reader[r], frontier.read_maker[r]
        rest = (frontier.read_ms[r] + frontier.ms[step] + after[step]).min(axis=1)
        after[maker] = np.maximum(after[maker], rest)
        span = tail[maker + 1 : step + 1, frontier.read_slot[r]]
        np.maximum(span, rest, out=span)
    return tail
