"""Bounds of overlapping schedules from blocks that are searched on their own.

Some tasks are borders: every other task comes before or after them. The latency is the sum of the
times of the blocks between borders. With a price of memory instead of its limits, the placements of
blocks depend on each other only through the devices of the borders. The least total cost then
follows block by block from the last one, minus the price of the memory within the limits. Any price
gives a bound; the best one is searched for along one direction. Equal blocks are searched once.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np

from placement_gym.base.arrays import FloatArray
from placement_gym.problem.costs.semantics import Semantics
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.beams.block_search import Cost, solve_block
from placement_gym.solvers.beams.blocks import Block, Blocks
from placement_gym.solvers.beams.expansion import CODED_DEVICES
from placement_gym.solvers.beams.frontier import list_order
from placement_gym.solvers.beams.prices import find_prices
from placement_gym.solvers.highs import GAP
from placement_gym.solvers.kinds import interchangeable_devices, previous_alike
from placement_gym.solvers.programs.load_cuts import MAX_TASKS
from placement_gym.solvers.solution import Solution
from placement_gym.solvers.tasks import Tasks

MAX_PRICES = 16
STEP = 1.25
CLOSE = 1e-4
ROUNDING = 1e-12


class Tangent(NamedTuple):
    """A bound and how it changes with the scale of the prices."""

    scale: float
    bound_ms: float
    slope_ms: float


class PricedBlocks:
    """Bounds all placements for given prices of memory.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        semantics: What the latency means; contention, transfers and gaps are ignored.
        end: When to stop, by ``perf_counter``.
    """

    def __init__(
        self, problem: Problem, costs: CostTable, semantics: Semantics, end: float
    ) -> None:
        self.problem, self.end = problem, end
        self.ordered = semantics.schedule == "list"
        tasks = Tasks.of_operators(problem.units, costs)
        self.blocks = Blocks.of(problem, tasks, list_order(tasks, semantics.order))
        self.kinds = interchangeable_devices(problem, costs, tasks.transfer_ms)
        self.alike = previous_alike(self.kinds)
        self.solved: dict[tuple[object, ...], Cost] = {}
        self.grain = max(ROUNDING * float(tasks.ms.max(axis=1).sum()), np.finfo(np.float64).tiny)
        self.memory, self.bound_ms = self.first_prices(tasks)

    def first_prices(self, tasks: Tasks) -> tuple[FloatArray, float]:
        """(n_devices,) prices of memory in ms per byte, and the bound in ms that they give.

        Those of the path-load program; for many tasks, the time per byte that fast devices save.
        """
        problem, limits = self.problem, self.problem.limits_bytes
        memory = np.zeros(len(limits))
        if len(tasks) > MAX_TASKS:
            saved_ms = tasks.ms.sum(axis=0).max() - tasks.ms.min(axis=1).sum()
            memory[np.isfinite(limits)] = saved_ms / max(problem.unit_bytes.sum(), 1.0)
            return memory, 0.0
        _, sets, bound_ms = find_prices(problem, tasks, self.end)
        for kind in self.kinds if sets else []:
            memory[kind] = sets[0].memory[kind].mean()
        return memory, bound_ms

    def solve(self, scale: float) -> Tangent | None:
        """Bound the latency at a multiple of the first prices of memory.

        Returns:
            None if the time is up.
        """
        memory, n_devices = scale * self.memory, len(self.memory)
        beyond, spent, total = np.zeros(n_devices), np.zeros(n_devices), 0.0
        for number in range(len(self.blocks.blocks) - 1, -1, -1):
            block = self.blocks.blocks[number]
            least, price = np.full(n_devices, np.inf), np.zeros(n_devices)
            for kind in self.kinds if number else self.kinds[:1]:
                if not block.possible[block.tasks.unit[0], kind[0]]:
                    continue
                found = self.search(block, kind[0], scale, beyond)
                if found is None:
                    return None
                least[kind], price[kind] = found.least, found.price + spent[found.exit]
            total += least.min()
            beyond = np.where(np.isfinite(least), least - least.min(), 0.0)
            beyond, spent = np.floor(beyond / self.grain) * self.grain, price
        first = self.kinds[0][0]
        limits = np.where(np.isfinite(self.problem.limits_bytes), self.problem.limits_bytes, 0.0)
        loose = self.blocks.loose_bytes.sum() * memory.min()
        free = memory @ limits
        slope_ms = (spent[first] + loose - free) / max(scale, GAP)
        return Tangent(scale, float(total + loose - free), float(slope_ms))

    def search(self, block: Block, device: int, scale: float, beyond: FloatArray) -> Cost | None:
        """The least cost of a block that is entered on a device, and of all that follows it."""
        key = block.contents, device, scale, beyond.tobytes()
        if key not in self.solved:
            price = block.unit_bytes[:, None] * scale * self.memory
            entered = block.enter(device)
            found = solve_block(entered, price, beyond, self.alike, self.ordered, self.end)
            if found is None:
                return None
            self.solved[key] = found
        return self.solved[key]


def bound_by_blocks(
    problem: Problem,
    costs: CostTable,
    semantics: Semantics,
    time_limit_s: float = 60.0,
    upper_ms: float = np.inf,
) -> Solution:
    """Bound the latency of a list or event schedule by its blocks.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        semantics: What the latency means; contention, transfers and gaps are ignored.
        time_limit_s: Wall-clock limit.
        upper_ms: A latency that some placement reaches; the bound does not exceed it.
    """
    end = perf_counter() + time_limit_s
    if len(problem.devices) > CODED_DEVICES:
        return Solution(None, 0.0, proven=False)
    priced = PricedBlocks(problem, costs, semantics, end)
    if priced.blocks.largest > MAX_TASKS:
        return Solution(None, priced.bound_ms, proven=False)
    best_ms = max([priced.bound_ms, *(found.bound_ms for found in vary(priced, upper_ms))])
    return Solution(None, min(best_ms, upper_ms), proven=False)


def vary(priced: PricedBlocks, upper_ms: float = np.inf) -> Iterator[Tangent]:
    """Solve at one scale of the prices after another, until the bound hardly rises any more.

    Args:
        priced: What is solved.
        upper_ms: Ends when the bound reaches it.
    """
    low: Tangent | None = None
    high: Tangent | None = None
    best_ms, scale = priced.bound_ms, 1.0
    for _ in range(MAX_PRICES):
        found = priced.solve(scale)
        if found is None:
            return
        yield found
        best_ms = max(best_ms, found.bound_ms)
        if best_ms >= upper_ms * (1.0 - GAP) or not priced.memory.any() or found.slope_ms == 0.0:
            return
        low, high = (found, high) if found.slope_ms > 0.0 else (low, found)
        if low is None or high is None:
            scale *= STEP if high is None else 1.0 / STEP
            continue
        scale, most_ms = meet(low, high)
        if not low.scale < scale < high.scale or most_ms <= best_ms * (1.0 + CLOSE):
            return


def meet(low: Tangent, high: Tangent) -> tuple[float, float]:
    """The scale at which two tangents intersect, and their value there."""
    rise = low.slope_ms - high.slope_ms
    gap = high.bound_ms - high.slope_ms * high.scale - low.bound_ms + low.slope_ms * low.scale
    scale = gap / rise
    return scale, low.bound_ms + low.slope_ms * (scale - low.scale)
