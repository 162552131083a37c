"""Joining partial placements with pieces that follow them."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.solvers.beams.expansion import BITS, Layer
from placement_gym.solvers.beams.frontier import Frontier
from placement_gym.solvers.beams.potentials import Potentials, weigh_times

JOINED_AT_ONCE = 200_000


@njit(cache=True, nogil=True)
def join(
    frontier: Frontier,
    potentials: Potentials,
    tail: FloatArray,
    limits: FloatArray,
    k: int,
    slot: int,
    layer: Layer,
    start: FloatArray,
    grown: Layer,
    fresh: BoolArray,
    last: FloatArray,
    upper: float,
    capacity: int,
    done: int,
) -> tuple[int, int, Layer, IntArray]:
    """Join partial placements of one code with every one of the piece that follows.

    Args:
        frontier: The steps.
        potentials: Bounds of completions.
        tail: See ``expand``.
        limits: (n_devices,) bytes.
        k: The step after the piece.
        slot: The slot that is live before the piece.
        layer: Partial placements before it.
        start: (n_values,) the one from which the piece was searched.
        grown: Partial placements at the end of the piece.
        fresh: (n_cut_slots,) cuts that began within the piece.
        last: (n_sets,) sum of ``Potentials.last`` over the piece.
        upper: Joined placements whose bound reaches it are discarded, ms.
        capacity: Maximum number that is joined at once; at least the length of ``grown``.
        done: Index in ``layer`` to start from.

    Returns:
        The number of joined placements, the next index in ``layer``, arrays whose first entries
        they are, and their indices in ``grown``.
    """
    n_slots, d = tail.shape[1], tail.shape[2]
    n_sets, n_cuts = potentials.last.shape[0], potentials.cut.shape[2]
    memory_at, latest_at = n_slots + d, n_slots + 2 * d
    cut_at = latest_at + 1
    done_at = cut_at + n_cuts
    live = frontier.live[frontier.first_live[k] : frontier.first_live[k + 1]]
    code = np.empty(capacity, np.uint64)
    values = np.empty((capacity, grown.values.shape[1]))
    bound = np.empty(capacity)
    parent = np.empty(capacity, np.int32)
    label = np.empty(capacity, np.int64)
    count = 0
    while done < len(layer.code) and count + len(grown.code) <= capacity:
        base = layer.values[done]
        shift = base[slot] - start[slot]
        for i in range(len(grown.code)):
            piece, row = grown.values[i], values[count]
            fits = True
            for other in range(d):
                row[memory_at + other] = (
                    piece[memory_at + other] - start[memory_at + other] + base[memory_at + other]
                )
                fits &= row[memory_at + other] <= limits[other]
            if not fits:
                continue
            row[:n_slots] = 0.0
            for s in live:
                row[s] = piece[s] + shift
            for other in range(n_slots, memory_at):
                row[other] = piece[other] + shift
            row[latest_at] = base[latest_at]
            if piece[latest_at] > 0.0:
                row[latest_at] = max(row[latest_at], piece[latest_at] + shift)
            for c in range(n_cuts):
                at = cut_at + c
                row[at] = piece[at] + (shift if fresh[c] else base[at] - start[at])
            least = max(row[latest_at], row[n_slots:memory_at].max())
            index = np.int64(0)
            for at in range(len(live) - 1, -1, -1):
                s = live[at]
                there = np.int64(grown.code[i] >> np.uint64(BITS * s)) & 7
                index = index * d + there
                least = max(least, row[s] + tail[k, s, there])
            for j in range(n_sets):
                at = done_at + j
                row[at] = base[at] + piece[at] - start[at] + last[j] * shift
                total = potentials.constant[j] + row[at]
                total += weigh_times(potentials, j, k, live, index, row, n_slots, d, cut_at)
                for other in range(d):
                    total += potentials.memory[j, other] * row[memory_at + other]
                least = max(least, total)
            if least >= upper:
                continue
            code[count], bound[count] = grown.code[i], least
            parent[count], label[count] = done, i
            count += 1
        done += 1
    device = np.zeros(capacity, np.int8)
    return count, done, Layer(code, values, bound, parent, device), label
