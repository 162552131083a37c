"""The least cost of a block: its time, the price of its memory, and the cost of what follows."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.solvers.beams.block_kernel import expand_block
from placement_gym.solvers.beams.blocks import Block
from placement_gym.solvers.beams.expansion import MAX_SLOTS, Layer, merge_alike
from placement_gym.solvers.beams.frontier import Frontier
from placement_gym.solvers.beams.growth import MAX_STATES, find_tails
from placement_gym.solvers.beams.potentials import Potentials
from placement_gym.solvers.beams.prices import RowPrices
from placement_gym.solvers.programs.cutting_planes import CuttingPlaneSolver
from placement_gym.solvers.programs.load_cuts import LoadCuts
from placement_gym.solvers.programs.path_program import PathProgram

ROUNDS = 8
WIDTHS = (100, 1_000, 10_000)


class Cost(NamedTuple):
    """A lower bound of a block's cost, and the best placement that was found.

    Attributes:
        least: No placement costs less.
        price: The part of the best placement's cost that is the price of memory.
        devices: (n_tasks,) of the entry, the inner tasks and the exit.
    """

    least: float
    price: float
    devices: IntArray

    @property
    def exit(self) -> int:
        """Device of the exit."""
        return int(self.devices[-1])


class BlockSearch:
    """Searches the placements of a block.

    Args:
        block: The block, entered on one device.
        price: (n_units, n_devices) of each unit's memory.
        beyond: (n_devices,) least cost of all that follows the exit.
        alike: (n_devices,) the previous device of equal properties, or -1.
        ordered: Whether a device runs tasks in their order.
        end: When to stop, by ``perf_counter``.
        widths: Partial placements that are kept, one number for each search.
    """

    def __init__(
        self,
        block: Block,
        price: FloatArray,
        beyond: FloatArray,
        alike: IntArray,
        ordered: bool,
        end: float,
        widths: tuple[int, ...] = WIDTHS,
    ) -> None:
        self.block, self.price, self.beyond = block, price, beyond
        self.alike, self.ordered, self.end, self.widths = alike, ordered, end, widths

    def solve(self) -> Cost | None:
        """Solve the block as a linear program, then exactly; None if the time is up before."""
        tasks, total = self.block.tasks, self.price.copy()
        leaving = tasks.unit[-1]
        total[leaving] += self.beyond
        built = PathProgram.build(self.block, tasks, whole=False, windows=False, price=total)
        solver, cuts, found = CuttingPlaneSolver(built.program), LoadCuts(built), None
        for _ in range(ROUNDS):
            solved = solver.minimize(max(self.end - perf_counter(), 0.0))
            if not solved.proven or solved.values is None or solved.prices is None:
                break
            found = solved
            if not cuts.add_violated(solved.values):
                break
        if found is None or found.values is None or found.prices is None:
            return None
        share = found.values[built.x]
        devices = share.argmax(axis=1)[tasks.unit]
        divided = Cost(found.bound, float((share * self.price).sum()), devices)
        n = len(tasks)
        frontier = Frontier.of(self.block, tasks, np.arange(n), (np.zeros(n, dtype=bool),) * 2)
        most = int(np.diff(frontier.first_live).max())
        if frontier.n_slots > MAX_SLOTS or len(self.beyond) ** most > MAX_STATES:
            return divided
        return self.widen(frontier, cuts, RowPrices.of(self.block, cuts, found.prices), divided)

    def widen(self, frontier: Frontier, cuts: LoadCuts, prices: RowPrices, divided: Cost) -> Cost:
        """Search with one width after another until nothing is dropped or the time is up."""
        unit = self.block.tasks.unit
        self.step_price = np.zeros(frontier.ms.shape)
        self.step_price[np.unique(unit, return_index=True)[1]] = self.price
        total = self.step_price.copy()
        total[-1] += self.beyond
        potentials = Potentials.of(self.block, frontier, cuts, [prices], total)
        tail = find_tails(frontier, self.beyond)
        best, found = divided, np.inf
        for width in self.widths:
            steps, dropped = self.search(frontier, potentials, tail, width, found)
            layer = steps[-1]
            if len(steps) > len(unit) and len(layer.code):
                i = int(layer.bound.argmin())
                found = float(layer.bound[i])
                price = float(layer.values[i, tail.shape[1] + len(self.beyond)])
                best = Cost(best.least, price, read_devices(steps, i))
            best = best._replace(least=max(best.least, min(dropped, found)))
            if dropped >= found or perf_counter() > self.end:
                break
        return best

    def search(
        self,
        frontier: Frontier,
        potentials: Potentials,
        tail: FloatArray,
        width: int,
        upper: float,
    ) -> tuple[list[Layer], float]:
        """Search once; returns all layers up to the last one, and the lowest bound dropped."""
        n_times = tail.shape[1] + len(self.beyond)
        n_values = n_times + 1 + potentials.cut.shape[2] + 1
        layer = Layer(
            np.zeros(1, np.uint64),
            np.zeros((1, n_values)),
            np.zeros(1),
            np.zeros(1, np.int32),
            np.zeros(1, np.int8),
        )
        # No slack: a block's bound must hold for all placements that are merged, not for most.
        compared, slack, memory = np.arange(n_times + 1), np.zeros(n_values), np.zeros((0, 0))
        layers, dropped = [layer], np.inf
        last = len(frontier.order) - 1
        for k in range(last + 1):
            # A search that stops here has dropped everything that is left: its bound is theirs.
            if perf_counter() > self.end:
                return layers, min(dropped, float(layer.bound.min()))
            count, grown = expand_block(
                frontier,
                potentials,
                tail,
                self.step_price,
                self.beyond,
                self.alike,
                self.ordered,
                k,
                layer,
                upper,
            )
            layer = grown.take(slice(count))
            # Nothing is merged in the last layer, whose best placement is read.
            if not count or k == last:
                layers.append(layer)
                break
            by_code = np.lexsort((layer.bound, layer.code))
            kept = np.flatnonzero(merge_alike(layer, by_code, compared, slack, memory, n_times))
            # What the width cuts off limits the bound of the whole search.
            if len(kept) > width:
                kept = kept[np.argsort(layer.bound[kept], kind="stable")]
                dropped = min(dropped, float(layer.bound[kept[width]]))
                kept = kept[:width]
            layer = layer.take(kept)
            layers.append(layer)
        return layers, dropped


def read_devices(layers: list[Layer], best: int) -> IntArray:
    """(n_tasks,) devices of a complete placement, by its number in the last layer."""
    devices = []
    for layer in reversed(layers[1:]):
        devices.append(int(layer.device[best]))
        best = int(layer.parent[best])
    return np.array(devices[::-1])
