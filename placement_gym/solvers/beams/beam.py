"""Placements and bounds of overlapping schedules by keeping the best partial placements.

Tasks are placed one by one in the order of the list schedule. Among partial placements whose live
tasks are on the same devices, only those are kept that no other one beats in every time and in
memory, and of these the ones with the lowest bounds. A bound combines the prices of the path-load
program's rows with the times that are already known. What is dropped limits the bound of the
result.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_gym.base.arrays import IntArray
from placement_gym.problem.costs.semantics import Semantics
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.beams.expansion import Layer
from placement_gym.solvers.beams.growth import Grower
from placement_gym.solvers.highs import GAP
from placement_gym.solvers.programs.paths import longest_path_or_load_ms
from placement_gym.solvers.solution import Solution, reaches
from placement_gym.solvers.tasks import Tasks

WIDTHS = (1_000, 4_000, 16_000, 64_000)
MERGED = 3e-6


class Step(NamedTuple):
    """Leads back from partial placements to those without the last task.

    Attributes:
        parent: (k,) number in the previous layer.
        device: (k,) of the last task.
    """

    parent: NDArray[np.int32]
    device: NDArray[np.int8]


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
        layer, dropped_ms, steps = self.first_layer(), upper_ms, list[Step]()
        for step in range(len(self.tasks)):
            if perf_counter() > end:
                return Solution(None, min(dropped_ms, float(layer.bound.min())), proven=False)
            layer, least_ms = self.advance(step, layer, width, upper_ms)
            dropped_ms = min(dropped_ms, least_ms)
            if not len(layer.code):
                return Solution(None, dropped_ms, proven=False)
            steps.append(Step(layer.parent, layer.device))
        return self.finish(layer, steps, dropped_ms)

    def finish(self, layer: Layer, steps: list[Step], dropped_ms: float) -> Solution:
        """The best complete placement and the bound."""
        best = int(layer.bound.argmin())
        least_ms = float(layer.bound[best])
        bound_ms = min(dropped_ms, least_ms)
        assignment = self.read(steps, best)
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

    def read(self, steps: list[Step], best: int) -> IntArray:
        """(n_units,) the assignment of a partial placement of the last layer."""
        devices: list[int] = []
        for parent, device in reversed(steps):
            devices.append(int(device[best]))
            best = int(parent[best])
        assignment = np.empty(self.problem.n_units, dtype=np.int64)
        assignment[self.tasks.unit[self.frontier.order]] = devices[::-1]
        return assignment


def widen(beam: Beam, widths: tuple[int, ...], upper_ms: float, end: float) -> Solution:
    """Search with one width after another until the bound is reached or the time is up.

    Args:
        beam: What searches.
        widths: Partial placements that are kept, one number for each search.
        upper_ms: A latency that some placement reaches; only lower ones are searched for.
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
