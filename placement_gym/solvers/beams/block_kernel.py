"""Partial placements of a block, where memory has a price instead of a limit."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.solvers.beams.expansion import BITS, Layer, delay_devices, is_allowed, place_task
from placement_gym.solvers.beams.frontier import Frontier
from placement_gym.solvers.beams.potentials import Potentials, weigh_times


@njit(cache=True, nogil=True)
def expand_block(
    frontier: Frontier,
    potentials: Potentials,
    tail: FloatArray,
    price: FloatArray,
    beyond: FloatArray,
    alike: IntArray,
    ordered: bool,
    k: int,
    layer: Layer,
    upper: float,
) -> tuple[int, Layer]:
    """Extend partial placements of a block by the task of step k.

    Here, the values of a layer are the finishes of the slots, the times at which devices are free,
    the price so far, cut slots, and finishes weighted by each set.

    Args:
        frontier: The steps of the block: the first is its entry, the last its exit.
        potentials: Bounds of completions.
        tail: (n + 1, n_slots, n_devices) least cost after the finish of each slot before a step.
        price: (n, n_devices) price of each step's task on each device.
        beyond: (n_devices,) least cost of all that follows the exit.
        alike: See ``expand``.
        ordered: See ``expand``.
        k: The step.
        layer: Partial placements before it.
        upper: Partial placements whose cost reaches it are discarded.

    Returns:
        The number of extended placements, and arrays whose first entries they are.
    """
    # Columns of values, as listed above.
    free_at, d = tail.shape[1], tail.shape[2]
    price_at = free_at + d
    cut_at = price_at + 1
    done_at = cut_at + potentials.cut.shape[2]
    width, last = len(layer.code), len(frontier.order) - 1
    # Whatever follows, the exit must run on some device.
    leave = (frontier.ms[last] + beyond).min()
    code = np.empty(width * d, np.uint64)
    values = np.empty((width * d, layer.values.shape[1]))
    bound = np.empty(width * d)
    parent = np.empty(width * d, np.int32)
    device = np.empty(width * d, np.int8)
    live = frontier.live[frontier.first_live[k + 1] : frontier.first_live[k + 2]]
    count = 0
    for i in range(width):
        for here in range(d):
            # The block before has set the entry's device: `alike` does not apply to it.
            if k > 0 and not is_allowed(frontier, k, layer.code[i], here, alike):
                continue
            if k == 0 and frontier.ms[0, here] == np.inf:
                continue
            row = values[count]
            row[:] = layer.values[i]
            # The exit ends the block: what follows starts only when all devices are free.
            if k == last:
                row[free_at + here] = row[free_at:price_at].max()
            after, finish = place_task(
                frontier,
                potentials,
                k,
                layer.code[i],
                here,
                row,
                free_at,
                cut_at,
                ordered or k == last,
            )
            # Memory has a price here, so that a cost is a latency plus what the bytes cost.
            row[price_at] += price[k, here]
            index = np.int64(0)
            least = finish + beyond[here] if k == last else row[free_at:price_at].max() + leave
            for at in range(len(live) - 1, -1, -1):
                there = np.int64(after >> np.uint64(BITS * live[at])) & 7
                index = index * d + there
                least = max(least, row[live[at]] + tail[k + 1, live[at], there])
            least += row[price_at]
            # The same bounds by prices as in `expand`, without those of memory, which the price
            # has.
            for j in range(len(potentials.last)):
                row[done_at + j] += potentials.last[j, k] * finish
                total = row[price_at] + row[done_at + j]
                total += weigh_times(potentials, j, k + 1, live, index, row, free_at, d, cut_at)
                least = max(least, total)
            # A parent's bound holds for its children.
            least = max(least, layer.bound[i])
            if least >= upper:
                continue
            if ordered and len(live):
                delay_devices(row, live, free_at, d)
            code[count], bound[count] = after, least
            parent[count], device[count] = i, here
            count += 1
    return count, Layer(code, values, bound, parent, device)
