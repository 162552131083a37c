"""Pieces of a list schedule between tasks that all later ones wait for, searched on their own.

Where a single task is live and no device is busy for longer, every time is that of its finish. The
piece up to the next such task can then be searched once for each device of the task, from the least
time and memory of all partial placements there, and joined with each of them. A piece has far fewer
partial placements than the whole, so that this gives a bound where the whole has too many.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_gym.arrays import IntArray
from placement_gym.solvers.beams.expansion import Layer
from placement_gym.solvers.beams.growth import Grower
from placement_gym.solvers.beams.joining import JOINED_AT_ONCE, join

MERGED_AT_BORDERS = 10.0
SAME = 1e-12


class Step(NamedTuple):
    """Leads back from partial placements to those without the last task.

    Attributes:
        parent: (k,) number in the previous layer.
        device: (k,) of the last task.
    """

    parent: NDArray[np.int32]
    device: NDArray[np.int8]


class Joined(NamedTuple):
    """Leads back from partial placements to those before the last piece, and to the piece's own.

    Attributes:
        parent: (k,) number in the layer before the piece.
        label: (k,) number in the last layer of the piece.
        piece: (k,) which piece.
        pieces: The steps of each.
    """

    parent: NDArray[np.int32]
    label: IntArray
    piece: IntArray
    pieces: list[list[Step]]


class PieceSearch:
    """Grows partial placements from one border to the next.

    Args:
        grower: What places a task.
        width: How many partial placements are kept.
        upper_ms: Partial placements whose bound reaches it are discarded.
        end: When to stop, by ``perf_counter``.
    """

    def __init__(self, grower: Grower, width: int, upper_ms: float, end: float) -> None:
        self.grower, self.width, self.upper_ms, self.end = grower, width, upper_ms, end
        frontier, potentials = grower.frontier, grower.potentials
        assert potentials is not None
        self.potentials = potentials
        n = len(frontier.order)
        alone = (np.diff(frontier.first_live) == 1) & frontier.waits & grower.ordered
        alone[0], alone[n] = False, True
        self.borders = np.flatnonzero(alone)
        self.begun = np.zeros((n + 1, potentials.cut.shape[2]), dtype=np.int64)
        for step in range(n):
            self.begun[step + 1] = self.begun[step]
            span = slice(potentials.first_begin[step], potentials.first_begin[step + 1])
            self.begun[step + 1, potentials.begin[span]] = step + 1

    def cross(
        self, begin: int, layer: Layer, moves: list[Step | Joined]
    ) -> tuple[Layer | None, float, int]:
        """Grow a layer to the next border.

        Args:
            begin: The first step to place.
            layer: Partial placements before it.
            moves: Steps so far, to which the new ones are added.

        Returns:
            The layer there, None if the time is up; the lowest bound dropped; and the border.
        """
        until = int(self.borders[np.searchsorted(self.borders, begin, side="right")])
        grown, dropped_ms, steps = self.grow(begin, until, layer)
        moves += steps
        if grown is None or np.isinf(dropped_ms) or not self.is_border(begin, layer):
            return grown, dropped_ms, until
        pieced, pieced_ms, joined = self.grow_pieces(begin, until, layer)
        if pieced is None or pieced_ms < dropped_ms:
            return grown, dropped_ms, until
        moves[len(moves) - len(steps) :] = [joined] if joined else []
        return pieced, pieced_ms, until

    def is_border(self, step: int, layer: Layer) -> bool:
        """Whether all times of each partial placement are those of its one live task."""
        if step not in self.borders or len(np.unique(layer.code)) == len(layer.code):
            return False
        n_slots, n_devices = self.grower.tail.shape[1:]
        free = layer.values[:, n_slots : n_slots + n_devices]
        return bool(np.allclose(free, layer.values[:, [self.slot(step)]], rtol=SAME, atol=0.0))

    def slot(self, step: int) -> int:
        """The slot that is live at a border."""
        frontier = self.grower.frontier
        return int(frontier.live[frontier.first_live[step]])

    def grow(self, begin: int, until: int, layer: Layer) -> tuple[Layer | None, float, list[Step]]:
        """Place the tasks of some steps; see ``cross``."""
        least_ms, steps = np.inf, list[Step]()
        for step in range(begin, until):
            if perf_counter() > self.end:
                return None, least_ms, steps
            layer, dropped_ms = self.grower.advance(step, layer, self.width, self.upper_ms)
            least_ms = min(least_ms, dropped_ms)
            steps.append(Step(layer.parent, layer.device))
            if not len(layer.code):
                break
        return layer, least_ms, steps

    def grow_pieces(
        self, begin: int, until: int, layer: Layer
    ) -> tuple[Layer | None, float, Joined | None]:
        """Search what follows once for each code of a border, and join it with the layer."""
        least_ms, pieces = np.inf, []
        pool: list[tuple[Layer, IntArray, IntArray]] = []
        for number, code in enumerate(np.unique(layer.code)):
            mine = np.flatnonzero(layer.code == code)
            start = self.ideal_start(begin, until, layer.take(mine))
            grown, dropped_ms, steps = self.grow(begin, until, start)
            if grown is None:
                return None, least_ms, None
            least_ms = min(least_ms, dropped_ms)
            pieces.append(steps)
            done = 0
            while len(grown.code) and done < len(mine):
                joined, label, done = self.join_some(
                    begin, until, layer.take(mine), start, grown, done
                )
                joined = joined._replace(parent=mine[joined.parent].astype(np.int32))
                pool.append((joined, label, np.full(len(label), number)))
                pool, dropped_ms = self.reduce(pool)
                least_ms = min(least_ms, dropped_ms)
        if not pool:
            return layer.take(slice(0)), least_ms, None
        (joined, label, piece), *_ = pool
        return joined, least_ms, Joined(joined.parent, label, piece, pieces)

    def reduce(
        self, pool: list[tuple[Layer, IntArray, IntArray]]
    ) -> tuple[list[tuple[Layer, IntArray, IntArray]], float]:
        """Combine joined partial placements and keep the best."""
        layers, labels, pieces = zip(*pool, strict=True)
        layer = Layer(*(np.concatenate(parts) for parts in zip(*layers, strict=True)))
        kept, dropped_ms = self.grower.choose(layer, self.width, MERGED_AT_BORDERS)
        label, piece = np.concatenate(labels)[kept], np.concatenate(pieces)[kept]
        return [(layer.take(kept), label, piece)], dropped_ms

    def ideal_start(self, begin: int, until: int, layer: Layer) -> Layer:
        """One partial placement that is in no value worse than any of a layer of one code.

        Its weighted finishes are raised so that its bounds are the lowest of the layer's, too,
        whichever of the earlier cuts are still open.
        """
        potentials, slot = self.potentials, self.slot(begin)
        n_slots, n_devices = self.grower.tail.shape[1:]
        memory_at, cut_at = n_slots + n_devices, n_slots + 2 * n_devices + 1
        done_at = cut_at + potentials.cut.shape[2]
        start = layer.values.min(axis=0)
        start[cut_at - 1] = 0.0
        start[done_at:] = 0.0
        more = layer.values - start
        memory = potentials.memory @ more[:, memory_at : cut_at - 1].T + more[:, done_at:].T
        weight = potentials.finish[:, begin, slot] + potentials.load.sum(axis=1)
        weight += potentials.cut[:, begin].sum(axis=1)
        least = np.full(len(potentials.constant), np.inf)
        for step in range(begin, until + 1):
            open_cuts = potentials.cut[:, step] * (self.begun[step] <= begin)
            time = (weight - open_cuts.sum(axis=1))[:, None] * more[:, slot]
            time += open_cuts @ more[:, cut_at:done_at].T
            least = np.minimum(least, (time + memory).min(axis=1))
        start[done_at:] = least
        first = layer.take(np.array([int(layer.bound.argmin())]))
        return first._replace(values=start[None].copy())

    def join_some(
        self, begin: int, until: int, layer: Layer, start: Layer, grown: Layer, done: int
    ) -> tuple[Layer, IntArray, int]:
        """Join partial placements from index ``done`` on with all those of a piece.

        Returns:
            Those that fit and are not discarded, their indices in the piece, and the next index.
        """
        grower = self.grower
        count, done, joined, label = join(
            grower.frontier,
            self.potentials,
            grower.tail,
            grower.problem.limits_bytes,
            until,
            self.slot(begin),
            layer,
            start.values[0],
            grown,
            self.begun[until] > begin,
            self.potentials.last[:, begin:until].sum(axis=1),
            self.upper_ms,
            max(JOINED_AT_ONCE, len(grown.code)),
            done,
        )
        return joined.take(slice(count)), label[:count], done
