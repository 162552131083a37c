"""Placements and bounds of overlapping schedules by beams of partial placements.

Tasks are placed one by one in the order of the list schedule. Of partial placements with live tasks
on the same devices, those remain that no other beats in every time and in memory; of these, a beam
keeps those of the lowest bounds. Bounds combine known times with prices of the path-load program.
Dropped placements limit the bound of the result.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import Int32, IntArray, now_s
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable, Semantics
from placement_gym.schedules import Simulator
from placement_gym.solvers import (
    GAP,
    Solution,
    Tasks,
    interchangeable_devices,
    longest_path_or_load_ms,
    reaches,
)
from placement_gym.solvers.beams.expansion import (
    CODED_DEVICES,
    MAX_SLOTS,
    Layer,
    expand,
    merge_alike,
)
from placement_gym.solvers.beams.frontier import Frontier, find_tiny
from placement_gym.solvers.beams.potentials import Potentials, find_prices, find_tails
from placement_gym.solvers.programs import MAX_TASKS

WIDTHS = (1_000, 4_000, 16_000, 64_000)
"""Partial placements kept in successive searches. Hand-tuned: each four times the last."""
MERGE_TOLERANCE = 3e-6
"""Relative difference of values that merging ignores. Hand-tuned: far below a gap that matters."""
MAX_STATES = 100_000
"""Maximum assignments of devices to live tasks in a table of potentials. Hand-tuned: for memory."""


class Beam:
    """Searches the placements of an event or list schedule.

    The latency is exact for a list schedule without contention, gaps and tiny tasks; otherwise it
    is a lower bound. Prices are computed until ``end``, by ``now_s``. Partial placements are merged
    if no time or bytes of one exceeds the other's by more than the share ``merged`` of ``bound_ms``
    or of the limit, which lowers bounds a little.

    Attributes:
        searchable: False if too many tasks are live at a time, or the time was up too early.
        bound_ms: Lower bound of the path-load program.
        exhausted: Whether the last search dropped nothing that could become faster than its result,
            so a wider search would find nothing better.
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
        self.ordered, self.merged = semantics.schedule == "list", merged
        self.exhausted, self.bound_ms, self.searchable = False, 0.0, False
        tasks, n_devices = Tasks.from_operators(problem.units, costs), len(problem.devices)
        tiny = find_tiny(problem, tasks)
        self.tasks = replace(tasks, ms=np.where(np.any(tiny, axis=0)[:, None], 0.0, tasks.ms))
        order = np.arange(len(tasks)) if semantics.order == "fifo" else tasks.rank_order()
        self.frontier = frontier = Frontier.from_order(problem, self.tasks, order, tiny)
        # few enough tasks are live at a time, on few enough devices
        n_live = int(np.diff(frontier.first_live).max())
        coded = frontier.n_slots <= MAX_SLOTS and n_devices <= CODED_DEVICES
        if not coded or n_devices**n_live > MAX_STATES or len(tasks) > MAX_TASKS:
            return
        cuts, sets, self.bound_ms = find_prices(problem, self.tasks, end)
        if not sets:
            return
        self.searchable = True
        self.potentials = Potentials.from_prices(problem, frontier, cuts, sets)
        self.tail = find_tails(frontier)
        self.alike = np.full(n_devices, -1)  # the device before each one of its kind
        for kind in interchangeable_devices(problem, costs, tasks.transfer_ms):
            self.alike[kind[1:]] = kind[:-1]
        # columns of `Layer.values`: finishes of slots, free times of devices, bytes, the last
        # finish, and what is derived from these
        self.n_times = self.tail.shape[1] + n_devices
        limited = np.isfinite(problem.limits_bytes)
        n_derived = len(sets) + self.potentials.cuts.weight.shape[2]
        times, held = [self.bound_ms] * self.n_times, np.where(limited, problem.limits_bytes, 0.0)
        parts = times, held, [self.bound_ms], np.zeros(n_derived)
        self.tolerances = merged * np.concatenate(parts)
        # those in which a larger number is worse
        bytes_at, latest = self.n_times + np.flatnonzero(limited), [self.n_times + n_devices]
        self.compared = np.concatenate([np.arange(self.n_times), bytes_at, latest])

    def search(self, width: int, upper_ms: float, end: float) -> Solution:
        """Search once until ``end``, keeping ``width`` partial placements of each length.

        Only latencies below ``upper_ms`` are searched for, and the bound does not exceed it.
        """
        self.exhausted = False
        layer, dropped_ms = Layer.empty(len(self.tolerances)), upper_ms
        steps: list[tuple[Int32, NDArray[np.int8]]] = []
        for k in range(len(self.tasks)):
            # Stopping here drops all that is left: the result has its bound.
            if now_s() > end:
                return Solution(None, min(dropped_ms, float(layer.bound.min())), proven=False)
            layer, least_ms = self.advance(k, layer, width, upper_ms)
            dropped_ms = min(dropped_ms, least_ms)
            if not len(layer.code):
                return Solution(None, dropped_ms, proven=False)
            steps.append((layer.parent, layer.device))
        best = int(layer.bound.argmin())
        least_ms = float(layer.bound[best])
        bound_ms = min(dropped_ms, least_ms)
        self.exhausted = dropped_ms >= least_ms and not self.merged
        # the devices of the best complete placement, from the last layer back to the first
        assignment = np.empty(self.problem.n_units, dtype=np.int64)
        for task, (parent, device) in zip(self.frontier.order[::-1], steps[::-1], strict=True):
            assignment[self.tasks.unit[task]] = device[best]
            best = int(parent[best])
        if self.problem.infeasibility(assignment):
            return Solution(None, bound_ms, proven=False)
        latency_ms = self.find_latency_ms(assignment)
        proven = self.exhausted and reaches(latency_ms, bound_ms)
        return Solution(assignment, min(bound_ms, latency_ms), proven)

    def advance(self, k: int, layer: Layer, width: int, upper_ms: float) -> tuple[Layer, float]:
        """Place one more task; return the best partial placements and the least bound dropped."""
        frontier, potentials, limits = self.frontier, self.potentials, self.problem.limits_bytes
        count, grown = expand(
            frontier, potentials, self.tail, self.alike, limits, self.ordered, k, layer, upper_ms
        )
        layer = grown.take(slice(count))
        by_code = np.lexsort((layer.bound, layer.code))
        kept = merge_alike(
            layer, by_code, self.compared, self.tolerances, potentials.memory, self.n_times
        )
        rows = np.flatnonzero(kept)
        if len(rows) <= width:
            return layer.take(rows), np.inf
        rows = rows[np.argsort(layer.bound[rows], kind="stable")]
        return layer.take(rows[:width]), float(layer.bound[rows[width]])

    def find_latency_ms(self, assignment: IntArray) -> float:
        """The latency that the bound limits: of a list schedule, or of paths and loads."""
        if not self.ordered:
            tasks = Tasks.from_operators(self.problem.units, self.costs)
            return longest_path_or_load_ms(tasks, assignment)
        semantics = Semantics("list", contention="none", order=self.order)
        simulator = Simulator(self.problem.units, self.costs, semantics)
        return simulator.latency_ms(assignment.astype(np.uint8))


def widen(beam: Beam, widths: tuple[int, ...], upper_ms: float, end: float) -> Solution:
    """Search with one width after another until the bound is reached or the time is up.

    Some placement reaches ``upper_ms``; only lower latencies are searched for.
    """
    best, bound_ms = None, min(beam.bound_ms, upper_ms)
    for width in widths if beam.searchable else ():
        if now_s() > end:
            break
        solution = beam.search(width, upper_ms, end)
        bound_ms = max(bound_ms, solution.bound_ms)
        best = best if solution.assignment is None else solution.assignment
        if beam.exhausted or bound_ms >= upper_ms * (1.0 - GAP):
            return Solution(best, bound_ms, solution.proven)
    return Solution(best, bound_ms, proven=False)
