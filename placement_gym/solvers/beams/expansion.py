"""Partial placements of a list schedule, a layer for each task, and the choice of those to keep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import BoolArray, FloatArray, IntArray, compile_once
from placement_gym.solvers.beams.frontier import Frontier
from placement_gym.solvers.beams.potentials import DEVICE, SLOT, Potentials, weigh_times

DEVICE_BITS = 3
"""Bits of a device in a code, see ``Layer``."""
CODED_DEVICES = 1 << DEVICE_BITS
MAX_SLOTS = (64 - CODED_DEVICES) // DEVICE_BITS
"""Devices and slots that a code of 64 bits has room for."""
MAX_COMPARISONS = 400
"""Maximum number of comparisons of a partial placement with others of its code. Hand-tuned:
comparing all takes quadratic time."""


class Layer(NamedTuple):
    """Partial placements of the same number of tasks."""

    # (k,) uint64: three bits for the device of each slot; above them a bit for each device that has
    # a task
    code: NDArray[np.uint64]
    # (k, n_values) finishes of the slots, when devices are free, bytes in use, the last finish of
    # tasks that nothing reads, cut slots, finishes weighted by each set
    values: FloatArray
    bound: FloatArray  # (k,) lower bound of the latency of all completions, ms
    parent: NDArray[np.int32]  # (k,) int32 number in the previous layer
    device: NDArray[np.int8]  # (k,) int8 of the last task

    @classmethod
    def empty(cls, n_values: int) -> Layer:
        """The placement of nothing."""
        code, parent = np.zeros(1, np.uint64), np.zeros(1, np.int32)
        return cls(code, np.zeros((1, n_values)), np.zeros(1), parent, np.zeros(1, np.int8))

    def take(self, rows: IntArray | slice) -> Layer:
        """Select partial placements by an index array or a slice."""
        code, values, bound = self.code[rows], self.values[rows], self.bound[rows]
        return Layer(code, values, bound, self.parent[rows], self.device[rows])


@compile_once(nogil=True, inline="always")
def is_allowed(frontier: Frontier, k: int, code: np.uint64, here: int, alike: IntArray) -> bool:
    """Return whether step k may use a device.

    The device must support the task, run the rest of its unit if that is placed, and not follow an
    unused device of equal properties, see ``alike`` of ``expand``.
    """
    if frontier.ms[k, here] == np.inf:
        return False
    # Operators of a unit that follow its first one have no choice.
    chain = frontier.chain[k]
    if chain >= 0:
        return np.int64(code >> np.uint64(DEVICE_BITS * chain)) & 7 == here
    # Of equal devices the first unused one stands for all.
    if alike[here] < 0:
        return True
    return code >> np.uint64(DEVICE_BITS * MAX_SLOTS + alike[here]) & np.uint64(1) != 0


@compile_once(nogil=True, inline="always")
def place_task(
    frontier: Frontier,
    potentials: Potentials,
    k: int,
    code: np.uint64,
    here: int,
    row: FloatArray,
    free_at: int,
    cut_at: int,
    ordered: bool,
) -> tuple[np.uint64, float]:
    """Place the task of step k on a device: change the (n_values,) row of a partial placement.

    ``free_at`` and ``cut_at`` are the columns of the first device's free time and the first cut
    slot. Returns the new code and the finish of the task.
    """
    ms, slot = frontier.ms[k, here], frontier.slot[k]
    ready = 0.0
    for r in range(frontier.first_read[k], frontier.first_read[k + 1]):
        s = frontier.read_slot[r]
        there = np.int64(code >> np.uint64(DEVICE_BITS * s)) & 7
        ready = max(ready, row[s] + frontier.read_ms[r, there, here])
    # Tiny tasks do not wait for their device, as they would multiply the orders in which it can
    # run; without an order, a device's time is a sum.
    if frontier.tiny[k]:
        finish = ready
    elif ordered:
        finish = max(ready, row[free_at + here]) + ms
        row[free_at + here] = finish
    else:
        finish = ready + ms
        row[free_at + here] += ms
    # The device is used now, which `is_allowed` reads of devices that are alike.
    code |= np.uint64(1) << np.uint64(DEVICE_BITS * MAX_SLOTS + here)
    # The task keeps its slot until its last reader is placed.
    if slot >= 0:
        row[slot] = finish
        code &= ~(np.uint64(7) << np.uint64(DEVICE_BITS * slot))
        code |= np.uint64(here) << np.uint64(DEVICE_BITS * slot)
    # Slots that nothing reads any more become zero: placements that differ only there are equal.
    mask = ~np.uint64(0) << np.uint64(DEVICE_BITS * MAX_SLOTS)
    for s in frontier.live[frontier.first_live[k + 1] : frontier.first_live[k + 2]]:
        mask |= np.uint64(7) << np.uint64(DEVICE_BITS * s)
    for s in frontier.live[frontier.first_live[k] : frontier.first_live[k + 1]]:
        if not mask >> np.uint64(DEVICE_BITS * s) & np.uint64(7):
            row[s] = 0.0
    # Interval load cuts: the finish of the first task, plus the work on its device since.
    cuts = potentials.cuts
    for at in range(cuts.first_inside[k], cuts.first_inside[k + 1]):
        if cuts.inside[at, DEVICE] == here and not frontier.tiny[k]:
            row[cut_at + cuts.inside[at, SLOT]] += ms
    for at in range(cuts.first_begin[k], cuts.first_begin[k + 1]):
        row[cut_at + cuts.begin[at]] = finish
    return code & mask, finish


@compile_once(nogil=True)
def expand(
    frontier: Frontier,
    potentials: Potentials,
    tail: FloatArray,
    alike: IntArray,
    limits: FloatArray,
    ordered: bool,
    k: int,
    layer: Layer,
    upper: float,
) -> tuple[int, Layer]:
    """Extend partial placements by the task of step k, on every device that may run it.

    If ``ordered``, devices run tasks in the order of steps; otherwise only loads count. Each of
    (n_devices,) ``alike`` is the previous device of equal properties, or -1. Placements whose bound
    reaches ``upper``, in ms, are discarded. Returns the number of extended placements, and arrays
    that begin with them.
    """
    n_slots, d = tail.shape[1], tail.shape[2]
    n_sets, n_cuts = potentials.last.shape[0], potentials.cuts.weight.shape[2]
    # Columns of `Layer.values`, in their order.
    free_at, memory_at = n_slots, n_slots + d
    latest_at = n_slots + 2 * d
    cut_at = latest_at + 1
    done_at = cut_at + n_cuts
    width, n_values = layer.values.shape
    # Room for the most that there can be: the caller cuts the arrays.
    code = np.empty(width * d, np.uint64)
    values = np.empty((width * d, n_values))
    bound = np.empty(width * d)
    parent = np.empty(width * d, np.int32)
    device = np.empty(width * d, np.int8)
    live = frontier.live[frontier.first_live[k + 1] : frontier.first_live[k + 2]]
    slot, unit_bytes = frontier.slot[k], frontier.unit_bytes[k]
    count = 0
    for i in range(width):
        before = layer.code[i]
        for here in range(d):
            if not is_allowed(frontier, k, before, here, alike):
                continue
            if layer.values[i, memory_at + here] + unit_bytes > limits[here]:
                continue
            # If the placement is not kept, the next one overwrites its row.
            row = values[count]
            row[:] = layer.values[i]
            after, finish = place_task(
                frontier, potentials, k, before, here, row, free_at, cut_at, ordered
            )
            row[memory_at + here] += unit_bytes
            # A task that nothing reads has no slot, but the latency includes its finish.
            if slot < 0:
                row[latest_at] = max(row[latest_at], finish)
            # First bound: the longest remaining path from each task that is still to be read.
            least = row[latest_at]
            index = np.int64(0)
            for at in range(len(live) - 1, -1, -1):
                s = live[at]
                there = np.int64(after >> np.uint64(DEVICE_BITS * s)) & 7
                index = index * d + there
                least = max(least, row[s] + tail[k + 1, s, there])
            # Second: no device ends before its own work.
            for other in range(d):
                least = max(least, row[free_at + other])
            # Third: each set of prices of the path-load program weighs these times and adds the
            # least cost of later steps.
            for j in range(n_sets):
                row[done_at + j] += potentials.last[j, k] * finish
                total = potentials.constant[j] + row[done_at + j]
                total += weigh_times(potentials, j, k + 1, live, index, row, free_at, d, cut_at)
                for other in range(d):
                    total += potentials.memory[j, other] * row[memory_at + other]
                least = max(least, total)
            # The parent's bound holds for its children, and may be higher than theirs.
            least = max(least, layer.bound[i])
            if least >= upper:
                continue
            # If all later tasks wait for live ones, none starts before the first of these finishes:
            # times raised to it make more placements equal.
            if ordered and frontier.waits[k + 1] and len(live):
                soonest = np.inf
                for s in live:
                    soonest = min(soonest, row[s])
                for other in range(d):
                    row[free_at + other] = max(row[free_at + other], soonest)
            code[count], bound[count] = after, least
            parent[count], device[count] = i, here
            count += 1
    return count, Layer(code, values, bound, parent, device)


@compile_once(nogil=True)
def merge_alike(
    layer: Layer,
    order: IntArray,
    compared: IntArray,
    slack: FloatArray,
    memory: FloatArray,
    n_times: int,
) -> BoolArray:
    """(k,) bool: merge partial placements into others of the same code, and say which remain.

    The other one may be worse by (n_values,) ``slack`` at most in each of the ``compared`` columns.
    It takes the smaller of both values, and what is derived from them is lowered, so that its bound
    holds for the completions of both. Without slack, only dominated placements are removed.

    ``order`` sorts placements by code, then bound. The first ``n_times`` columns are times, as is
    the one after the bytes; the columns after that are derived from times.
    """
    code, values, n_devices = layer.code, layer.values, memory.shape[1]
    # Slack is measured against the original values, or it would add up along a chain of merges.
    latest = n_times + n_devices
    before = values.copy() if slack.any() else values
    keep = np.ones(len(code), np.bool_)
    chosen = np.empty(len(code), np.int64)
    count = 0
    for position in range(len(order)):
        i = order[position]
        # Only placements of one code (the same devices of live tasks) have the same completions.
        if position == 0 or code[i] != code[order[position - 1]]:
            count = 0
        # Comparing with all would take quadratic time; placements with low bounds come first.
        for c in range(min(count, MAX_COMPARISONS)):
            j = chosen[c]
            better = True
            for v in compared:
                if before[j, v] > before[i, v] + slack[v]:
                    better = False
                    break
            # The one that stays takes the better values, to bound the completions of both.
            if better:
                keep[i] = False
                for v in compared:
                    values[j, v] = min(values[j, v], before[i, v])
                break
        if keep[i]:
            chosen[count] = i
            count += 1
    # A bound falls by at most as much as the largest of the times that it is made of.
    for i in range(len(code)):
        lowered = before[i, latest] - values[i, latest]
        for v in range(n_times):
            lowered = max(lowered, before[i, v] - values[i, v])
        for v in range(latest + 1, values.shape[1]):
            values[i, v] -= lowered
        # Memory counts in the bound by its price: the set with the largest change decides.
        most = 0.0
        for j in range(len(memory)):
            less = 0.0
            for d in range(n_devices):
                less += memory[j, d] * (before[i, n_times + d] - values[i, n_times + d])
            most = max(most, less)
        layer.bound[i] -= lowered + most
    return keep
