"""Placements and bounds of overlapping schedules by keeping the best partial placements.

Tasks are placed one by one in the order of the list schedule. Among partial placements whose live
tasks are on the same devices, only those are kept that no other one beats in every time and in
memory, and of these the ones with the lowest bounds. A bound combines the prices of the path-load
program's rows with the times that are already known. What is dropped limits the bound of the
result.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placement_gym.base import IntArray, now_s
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable, Semantics
from placement_gym.schedules import Simulator
from placement_gym.solvers import (
    GAP,
    Solution,
    Tasks,
    interchangeable_devices,
    longest_path_or_load_ms,
    previous_alike,
    reaches,
)
from placement_gym.solvers.beams.frontier import Frontier, find_tiny, list_order
from placement_gym.solvers.beams.growth import Grower, is_narrow
from placement_gym.solvers.beams.potentials import Potentials
from placement_gym.solvers.beams.prices import find_prices
from placement_gym.solvers.programs import MAX_TASKS

WIDTHS = (1_000, 4_000, 16_000, 64_000)
"""Partial placements that are kept in one search after another: ours, each four times the last."""
MERGE_TOLERANCE = 3e-6
"""Relative difference of values that merging ignores: ours, far below a gap that matters."""


class Beam:
    """Searches the placements of an event or list schedule.

    The latency is exact for a list schedule without contention, gaps and tiny tasks; otherwise it
    is a lower bound.

    Attributes:
        grower: What searches; None if too many tasks are live at a time.
        bound_ms: Lower bound of the path-load program.
        exhausted: Whether the last search dropped nothing that could have become faster than its
            result, so that a wider search would find nothing better.
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
        self.exhausted, self.bound_ms = False, 0.0
        tasks = Tasks.of_operators(problem.units, costs)
        tiny = find_tiny(problem, tasks)
        self.tasks = replace(tasks, ms=np.where((tiny[0] | tiny[1])[:, None], 0.0, tasks.ms))
        order = list_order(tasks, semantics.order)
        self.frontier = Frontier.of(problem, self.tasks, order, tiny)
        self.grower = self.find_grower(end)

    def find_grower(self, end: float) -> Grower | None:
        """Make the search; None if too many tasks are live at a time, or the time is up before."""
        problem, frontier, d = self.problem, self.frontier, len(self.problem.devices)
        if not is_narrow(frontier, d) or len(self.tasks) > MAX_TASKS:
            return None
        cuts, sets, self.bound_ms = find_prices(problem, self.tasks, end)
        if not sets:
            return None
        return Grower(
            frontier,
            Potentials.of(problem, frontier, cuts, sets),
            problem.limits_bytes,
            previous_alike(interchangeable_devices(problem, self.costs, self.tasks.transfer_ms)),
            self.ordered,
            self.merged,
            self.bound_ms,
        )

    def search(self, width: int, upper_ms: float, end: float) -> Solution:
        """Search once, as ``Grower.search``; the bound does not exceed ``upper_ms``."""
        assert self.grower is not None
        outcome = self.grower.search(width, upper_ms, end)
        bound_ms = min(outcome.dropped_ms, outcome.least_ms)
        self.exhausted = False
        if outcome.devices is None:
            return Solution(None, bound_ms, proven=False)
        self.exhausted = outcome.dropped_ms >= outcome.least_ms and not self.merged
        assignment = np.empty(self.problem.n_units, dtype=np.int64)
        assignment[self.tasks.unit[self.frontier.order]] = outcome.devices
        if self.problem.infeasibility(assignment):
            return Solution(None, bound_ms, proven=False)
        latency_ms = self.find_latency_ms(assignment)
        proven = self.exhausted and reaches(latency_ms, bound_ms)
        return Solution(assignment, min(bound_ms, latency_ms), proven)

    def find_latency_ms(self, assignment: IntArray) -> float:
        """The latency that the bound refers to: of a list, or of a schedule whose tasks overlap.

        Tasks that take almost no time are included.
        """
        if not self.ordered:
            tasks = Tasks.of_operators(self.problem.units, self.costs)
            return longest_path_or_load_ms(tasks, assignment)
        semantics = Semantics("list", contention="none", order=self.order)
        simulator = Simulator(self.problem.units, self.costs, semantics)
        return simulator.latency_ms(assignment.astype(np.uint8))


def widen(beam: Beam, widths: tuple[int, ...], upper_ms: float, end: float) -> Solution:
    """Search with one width after another until the bound is reached or the time is up.

    Args:
        beam: What searches.
        widths: Partial placements that are kept, one number for each search.
        upper_ms: A latency that some placement reaches; only lower ones are searched for.
        end: When to stop, by ``now_s``.
    """
    best, bound_ms = None, min(beam.bound_ms, upper_ms)
    for width in widths if beam.grower is not None else ():
        if now_s() > end:
            break
        solution = beam.search(width, upper_ms, end)
        bound_ms = max(bound_ms, solution.bound_ms)
        best = best if solution.assignment is None else solution.assignment
        if beam.exhausted or bound_ms >= upper_ms * (1.0 - GAP):
            return Solution(best, bound_ms, solution.proven)
    return Solution(best, bound_ms, proven=False)
