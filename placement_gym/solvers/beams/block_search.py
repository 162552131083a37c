"""The least cost of a block: its time, the price of its memory, and the cost of what follows."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.solvers.beams.blocks import Block
from placement_gym.solvers.beams.expansion import Prices
from placement_gym.solvers.beams.frontier import Frontier
from placement_gym.solvers.beams.growth import Grower, is_narrow
from placement_gym.solvers.beams.potentials import Potentials
from placement_gym.solvers.beams.prices import RowPrices
from placement_gym.solvers.highs import CuttingPlaneSolver
from placement_gym.solvers.programs.load_cuts import LoadCuts, tighten
from placement_gym.solvers.programs.path_program import PathProgram

WIDTHS = (100, 1_000, 10_000)
"""Partial placements that are kept, one number for each search."""


class Cost(NamedTuple):
    """A lower bound of a block's cost, and the best placement that was found.

    Attributes:
        least: No placement costs less.
        price: The part of the best placement's cost that is the price of memory.
        exit: Device of the exit in it.
    """

    least: float
    price: float
    exit: int


def solve_block(
    block: Block,
    price: FloatArray,
    beyond: FloatArray,
    alike: IntArray,
    ordered: bool,
    end: float,
) -> Cost | None:
    """Solve a block as a linear program, then search it until nothing is dropped.

    Args:
        block: The block, entered on one device.
        price: (n_units, n_devices) of each unit's memory.
        beyond: (n_devices,) least cost of all that follows the exit.
        alike: (n_devices,) the previous device of equal properties, or -1.
        ordered: Whether a device runs tasks in their order.
        end: When to stop, by ``perf_counter``.

    Returns:
        None if the time is up before the linear program is solved.
    """
    if perf_counter() > end:
        return None
    # The linear program charges what follows at the exit, and bounds the block from below.
    tasks, total = block.tasks, price.copy()
    total[tasks.unit[-1]] += beyond
    built = PathProgram.build(block, tasks, whole=False, price=total)
    cuts = LoadCuts(built)
    divided, _ = tighten(CuttingPlaneSolver(built.program), cuts, end)
    if divided is None or divided.values is None or divided.prices is None:
        return None
    # Its fractions may stand for no placement, but they are the answer where a search cannot run.
    share = divided.values[built.x]
    best = Cost(divided.bound, float((share * price).sum()), int(share[tasks.unit[-1]].argmax()))
    n = len(tasks)
    frontier = Frontier.of(block, tasks, np.arange(n), (np.zeros(n, dtype=bool),) * 2)
    if not is_narrow(frontier, len(beyond)):
        return best
    # A unit's memory has its price at its first task, what follows the block at the exit.
    step_price = np.zeros(frontier.ms.shape)
    step_price[np.unique(tasks.unit, return_index=True)[1]] = price
    with_exit = step_price.copy()
    with_exit[-1] += beyond
    # Prices of the program's rows say what the rest of the block costs at least.
    rows = RowPrices.of(block, cuts, divided.prices)
    grower = Grower(
        frontier,
        Potentials.of(block, frontier, cuts, [rows], with_exit),
        Prices(step_price, beyond, closes=True),
        block.limits_bytes,
        alike,
        ordered,
    )
    # Wider beams, until nothing that was dropped can be better: then the block is solved.
    least = np.inf
    for width in WIDTHS:
        found = grower.search(width, least, end)
        if found.devices is not None:
            least = found.least_ms
            best = Cost(best.least, found.price_ms, int(found.devices[-1]))
        best = best._replace(least=max(best.least, min(found.dropped_ms, least)))
        if found.dropped_ms >= least or perf_counter() > end:
            break
    return best
