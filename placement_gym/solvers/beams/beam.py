"""Placements and bounds of overlapping schedules by keeping the best partial placements.

Tasks are placed one by one in the order of the list schedule. Among partial placements whose live
tasks are on the same devices, only those are kept that no other one beats in every time and in
memory, and of these the ones with the lowest bounds. A bound combines the prices of the path-load
program's rows with the times that are already known. What is dropped limits the bound of the
result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import FloatArray, IntArray, now_s
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
from placement_gym.solvers.beams.expansion import (
    CODED_DEVICES,
    MAX_SLOTS,
    Layer,
    expand,
    merge_alike,
)
from placement_gym.solvers.beams.frontier import Frontier, find_tiny, list_order
from placement_gym.solvers.beams.potentials import Potentials, find_tails
from placement_gym.solvers.beams.prices import find_prices
from placement_gym.solvers.programs import MAX_TASKS

WIDTHS = (1_000, 4_000, 16_000, 64_000)
"""Partial placements that are kept in one search after another. Hand-tuned: each four times the
last."""
MERGE_TOLERANCE = 3e-6
"""Relative difference of values that merging ignores. Hand-tuned: far below a gap that matters."""


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


MAX_STATES = 100_000
"""Assignments of devices to live tasks in one table of potentials, at most. Hand-tuned: for memory.
"""


class BackStep(NamedTuple):
    """Leads back from partial placements to those without the last task.

    Attributes:
        parent: (k,) number in the previous layer.
        device: (k,) of the last task.
    """

    parent: NDArray[np.int32]
    device: NDArray[np.int8]


class BeamResult(NamedTuple):
    """Result of a search.

    Attributes:
        least_ms: Cost of the best complete placement; infinite if there is none.
        devices: (n,) device of each step in it; None if there is none.
        dropped_ms: No placement that was dropped costs less.
    """

    least_ms: float
    devices: IntArray | None
    dropped_ms: float


@dataclass(frozen=True, eq=False)
class Grower:
    """Searches the placements of the tasks of a frontier.

    Attributes:
        frontier: The steps.
        potentials: Bounds of completions.
        limits_bytes: (n_devices,) bytes that fit.
        alike: (n_devices,) the previous device of equal properties, or -1.
        ordered: Whether a device runs tasks in the order of steps.
        slack: Partial placements are merged if none of the times and bytes of one exceeds the
            other's by more than this share of ``about_ms`` or of the limit. This lowers bounds a
            little; zero keeps them.
        about_ms: About the latency.
    """

    frontier: Frontier
    potentials: Potentials
    limits_bytes: FloatArray
    alike: IntArray
    ordered: bool
    slack: float = 0.0
    about_ms: float = 0.0

    def search(self, width: int, upper_ms: float, end: float) -> BeamResult:
        """Search once, keeping ``width`` partial placements of each length."""
        layer, dropped_ms, steps = Layer.empty(len(self.tolerances)), upper_ms, list[BackStep]()
        for k in range(len(self.frontier.order)):
            # A search that stops here has dropped everything that is left: its bound is theirs.
            if now_s() > end:
                return BeamResult(np.inf, None, min(dropped_ms, float(layer.bound.min())))
            layer, least_ms = self.advance(k, layer, width, upper_ms)
            dropped_ms = min(dropped_ms, least_ms)
            if not len(layer.code):
                return BeamResult(np.inf, None, dropped_ms)
            steps.append(BackStep(layer.parent, layer.device))
        best = int(layer.bound.argmin())
        return BeamResult(float(layer.bound[best]), read_devices(steps, best), dropped_ms)

    def advance(self, k: int, layer: Layer, width: int, upper_ms: float) -> tuple[Layer, float]:
        """Place one more task; returns the best partial placements and the lowest bound dropped."""
        count, grown = expand(
            self.frontier,
            self.potentials,
            self.tail,
            self.alike,
            self.limits_bytes,
            self.ordered,
            k,
            layer,
            upper_ms,
        )
        layer = grown.take(slice(count))
        by_code = np.lexsort((layer.bound, layer.code))
        memory, n_times = self.potentials.memory, self.n_times
        rows = np.flatnonzero(
            merge_alike(layer, by_code, self.compared, self.tolerances, memory, n_times)
        )
        if len(rows) <= width:
            return layer.take(rows), np.inf
        rows = rows[np.argsort(layer.bound[rows], kind="stable")]
        return layer.take(rows[:width]), float(layer.bound[rows[width]])

    @property
    def n_devices(self) -> int:
        return len(self.alike)

    @property
    def n_times(self) -> int:
        """Number of finishes of slots, and of times when devices are free."""
        return self.tail.shape[1] + self.n_devices

    @cached_property
    def tail(self) -> FloatArray:
        return find_tails(self.frontier)

    @cached_property
    def tolerances(self) -> FloatArray:
        """(n_values,) difference in each value that merging ignores."""
        n_sets, _, n_cuts = self.potentials.cuts.weight.shape
        limits = np.where(np.isfinite(self.limits_bytes), self.limits_bytes, 0.0)
        times = np.full(self.n_times, self.about_ms)
        derived = np.zeros(n_cuts + n_sets)
        return self.slack * np.concatenate([times, limits, [self.about_ms], derived])

    @cached_property
    def compared(self) -> IntArray:
        """Columns of values in which a larger number is worse."""
        limited = self.n_times + np.flatnonzero(np.isfinite(self.limits_bytes))
        return np.concatenate([np.arange(self.n_times), limited, [self.n_times + self.n_devices]])


def is_narrow(frontier: Frontier, n_devices: int) -> bool:
    """True if few enough tasks are live at a time, on few enough devices, to be searched."""
    most = int(np.diff(frontier.first_live).max())
    fits = frontier.n_slots <= MAX_SLOTS and n_devices <= CODED_DEVICES
    return fits and n_devices**most <= MAX_STATES


def read_devices(steps: list[BackStep], best: int) -> IntArray:
    """(n,) devices of a complete placement, by its number in the last layer."""
    devices: list[int] = []
    for parent, device in reversed(steps):
        devices.append(int(device[best]))
        best = int(parent[best])
    return np.array(devices[::-1])
