"""Placements and bounds of overlapping schedules by keeping the best partial placements.

Tasks are placed one by one in the order of the list schedule. Among partial placements whose live
tasks are on the same devices, only those are kept that no other one beats in every time and in
memory, and of these the ones with the lowest bounds. A bound combines the prices of the path-load
program's rows with the times that are already known. What is dropped limits the bound of the
result.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.costs.semantics import Semantics
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.beams.expansion import Layer
from placement_gym.solvers.beams.growth import Grower
from placement_gym.solvers.beams.pieces import Joined, PieceSearch, Step
from placement_gym.solvers.highs import GAP
from placement_gym.solvers.programs.paths import longest_path_or_load_ms
from placement_gym.solvers.solution import Solution, reaches
from placement_gym.solvers.tasks import Tasks

WIDTHS = (1_000, 4_000, 16_000, 64_000)
MERGED = 3e-6


class Beam(Grower):
    """Searches the placements of an event or list schedule; see ``Grower`` for the arguments.

    Attributes:
        exhausted: Whether the last search dropped nothing that could have become faster than its
            result, so that a wider search would find nothing better.
    """

    exhausted = False

    def search(self, width: int, upper_ms: float, end: float) -> Solution:
        """Search once, keeping ``width`` partial placements of each length.

        Args:
            width: How many.
            upper_ms: Only lower latencies are searched for; the bound does not exceed it.
            end: When to stop, by ``perf_counter``.
        """
        self.exhausted = False
        pieces = PieceSearch(self, width, upper_ms, end)
        layer, dropped_ms, step = self.first_layer(), upper_ms, 0
        moves: list[Step | Joined] = []
        while step < len(self.tasks):
            grown, least_ms, until = pieces.cross(step, layer, moves)
            dropped_ms = min(dropped_ms, least_ms)
            if grown is None:
                return Solution(None, min(dropped_ms, float(layer.bound.min())), proven=False)
            if not len(grown.code):
                return Solution(None, dropped_ms, proven=False)
            layer, step = grown, until
        return self.finish(layer, moves, dropped_ms)

    def finish(self, layer: Layer, moves: list[Step | Joined], dropped_ms: float) -> Solution:
        """The best complete placement and the bound."""
        best = int(layer.bound.argmin())
        least_ms = float(layer.bound[best])
        bound_ms = min(dropped_ms, least_ms)
        assignment = self.read(moves, best)
        self.exhausted = dropped_ms >= least_ms and not self.merged
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

    def read(self, moves: list[Step | Joined], best: int) -> IntArray:
        """(n_units,) the assignment of a partial placement of the last layer."""
        devices: list[int] = []
        for move in reversed(moves):
            if isinstance(move, Joined):
                label = int(move.label[best])
                for inner in reversed(move.pieces[move.piece[best]]):
                    devices.append(int(inner.device[label]))
                    label = int(inner.parent[label])
            else:
                devices.append(int(move.device[best]))
            best = int(move.parent[best])
        assignment = np.empty(self.problem.n_units, dtype=np.int64)
        assignment[self.tasks.unit[self.frontier.order]] = devices[::-1]
        return assignment


def solve(
    problem: Problem,
    costs: CostTable,
    semantics: Semantics,
    time_limit_s: float = 60.0,
    upper_ms: float = np.inf,
    widths: tuple[int, ...] = WIDTHS,
) -> Solution:
    """Bound the latency of a list or event schedule, and place units, by wider and wider beams.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        semantics: What the latency means; contention, transfers and gaps are ignored.
        time_limit_s: Wall-clock limit.
        upper_ms: A latency that some placement reaches; only lower ones are searched for.
        widths: Partial placements that are kept, one number for each search.
    """
    end = perf_counter() + time_limit_s
    return widen(Beam(problem, costs, semantics, end), widths, upper_ms, end)


def widen(beam: Beam, widths: tuple[int, ...], upper_ms: float, end: float) -> Solution:
    """Search with one width after another until the bound is reached or the time is up.

    Args:
        beam: What searches.
        widths: Partial placements that are kept, one number for each search.
        upper_ms: As for ``solve``.
        end: When to stop, by ``perf_counter``.
    """
    best, bound_ms = None, min(beam.bound_ms, upper_ms)
    for width in widths if beam.potentials is not None else ():
        if perf_counter() > end:
            break
        found = beam.search(width, upper_ms, end)
        bound_ms = max(bound_ms, found.bound_ms)
        best = best if found.assignment is None else found.assignment
        if beam.exhausted or bound_ms >= upper_ms * (1.0 - GAP):
            return Solution(best, bound_ms, found.proven)
    return Solution(best, bound_ms, proven=False)
