"""Lower bounds on completing a partial placement, from prices of the path-load program's rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, IntArray, compile_once
from placement_gym.problem import Problem
from placement_gym.solvers.beams.cut_slots import CutSlots, assign_cuts
from placement_gym.solvers.beams.frontier import Frontier
from placement_gym.solvers.beams.prices import RowPrices
from placement_gym.solvers.programs import LoadCuts


class Potentials(NamedTuple):
    """Lower bounds of the latency of all completions of a partial placement.

    Before step k, and for set j of prices, a bound is the weighted sum of the finishes in slots, of
    the finishes that cuts imply, of the times at which devices are free, and of the memory in use;
    plus the least cost of later steps given the devices of the slots.
    """

    finish: FloatArray  # (n_sets, n + 1, n_slots) weight of each slot's finish
    cuts: CutSlots  # weights of cut slots, and what each step does to them
    last: FloatArray  # (n_sets, n) weight of the finish of each step's task
    load: FloatArray  # (n_sets, n_devices) weight of the time at which a device is free
    memory: FloatArray  # (n_sets, n_devices) weight of bytes in use
    constant: FloatArray  # (n_sets,)
    first_rest: IntArray  # (n + 2,) where the values of each step begin in ``rest``
    # (n_sets, ...) least cost of the steps from k on, for each assignment of the live slots as a
    # number in base n_devices, the first slot's digit the lowest
    rest: FloatArray

    @classmethod
    def from_prices(
        cls, problem: Problem, frontier: Frontier, cuts: LoadCuts, sets: list[RowPrices]
    ) -> Potentials:
        """Compute the weights from sets of prices of the same cuts."""
        d, groups = frontier.ms.shape[1], problem.memory
        # Zero where a device cannot run the task, as infinity times a price of zero is not a
        # number; the price itself is made infinite below.
        ms = np.where(np.isfinite(frontier.ms), frontier.ms, 0.0)
        intervals, unary = assign_cuts(frontier, cuts, sets, ms)
        reading = np.stack([prices.reading[frontier.read_index] for prices in sets])
        n, reader = len(ms), np.repeat(np.arange(len(ms)), np.diff(frontier.first_read))
        for j, prices in enumerate(sets):
            # By the program's rows, a task pays for its first constraint, what it reads, its
            # device's load and its memory.
            entering = prices.first[frontier.order] + np.bincount(reader, reading[j], n)
            unary[j] += (entering[:, None] + prices.load) * ms
            unary[j] += prices.memory[groups.of_device] * frontier.unit_bytes[:, None]
        unary[:, ~np.isfinite(frontier.ms)] = np.inf
        # A device pays the price of its pool, whose limit counts once.
        group_prices = np.stack([prices.memory for prices in sets])
        limits = np.where(np.isfinite(groups.limits_bytes), groups.limits_bytes, 0.0)
        # A value for each assignment of devices to the live slots: few slots keep this small.
        sizes = d ** np.diff(frontier.first_live)
        first_rest = np.concatenate([[0], np.cumsum(sizes)])
        return cls(
            finish=weigh_finishes(frontier, reader, reading),
            cuts=intervals,
            last=np.stack([prices.last[frontier.order] for prices in sets]),
            load=np.stack([prices.load for prices in sets]),
            memory=group_prices[:, groups.of_device],
            constant=-group_prices @ limits,
            first_rest=first_rest,
            rest=find_rest(frontier, first_rest, unary, reading),
        )


def weigh_finishes(frontier: Frontier, reader: IntArray, reading: FloatArray) -> FloatArray:
    """(n_sets, n + 1, n_slots) weight of all readings of a slot that are still to come."""
    weight = np.zeros((len(reading), len(frontier.order) + 1, max(frontier.n_slots, 1)))
    for r, (maker, until) in enumerate(zip(frontier.read_maker, reader, strict=True)):
        weight[:, maker + 1 : until + 1, frontier.read_slot[r]] += reading[:, [r]]
    return weight


@compile_once(nogil=True)
def find_rest(
    frontier: Frontier, first_rest: IntArray, unary: FloatArray, reading: FloatArray
) -> FloatArray:
    """See ``Potentials.rest``.

    Args:
        frontier: The steps.
        first_rest: See ``Potentials``.
        unary: (n_sets, n, n_devices) price of each step's task on each device.
        reading: (n_sets, n_readings) price per ms of each reading.
    """
    n, d = frontier.ms.shape
    n_sets = len(unary)
    rest = np.zeros((n_sets, first_rest[n + 1]))
    device = np.zeros(max(frontier.n_slots, 1), np.int64)
    # Backwards: the rest of a step is its own price plus the rest of the next one.
    for k in range(n - 1, -1, -1):
        live = frontier.live[frontier.first_live[k] : frontier.first_live[k + 1]]
        following = frontier.live[frontier.first_live[k + 1] : frontier.first_live[k + 2]]
        for code in range(first_rest[k + 1] - first_rest[k]):
            digits = code
            # The assignment in base n_devices, the first slot's digit the lowest.
            for s in live:
                device[s] = digits % d
                digits //= d
            for j in range(n_sets):
                least = np.inf
                for here in range(d):
                    # Operators of a unit that follow its first one have no choice.
                    if frontier.chain[k] >= 0 and device[frontier.chain[k]] != here:
                        continue
                    cost = unary[j, k, here]
                    for r in range(frontier.first_read[k], frontier.first_read[k + 1]):
                        there = device[frontier.read_slot[r]]
                        cost += reading[j, r] * frontier.read_ms[r, there, here]
                    # Slots that stay live keep their device, and the step's own gets its new one.
                    after = 0
                    for i in range(len(following) - 1, -1, -1):
                        s = following[i]
                        after = after * d + (here if s == frontier.slot[k] else device[s])
                    least = min(least, cost + rest[j, first_rest[k + 1] + after])
                rest[j, first_rest[k] + code] = least
    return rest


def find_tails(frontier: Frontier) -> FloatArray:
    """(n + 1, n_slots, n_devices) least time that follows the finish in each slot, by step, ms."""
    n, d = frontier.ms.shape
    after = np.zeros((n, d))
    reader = np.repeat(np.arange(n), np.diff(frontier.first_read))
    tail = np.zeros((n + 1, max(frontier.n_slots, 1), d))
    for r in range(len(reader) - 1, -1, -1):
        step, maker = reader[r], frontier.read_maker[r]
        rest = (frontier.read_ms[r] + frontier.ms[step] + after[step]).min(axis=1)
        after[maker] = np.maximum(after[maker], rest)
        span = tail[maker + 1 : step + 1, frontier.read_slot[r]]
        np.maximum(span, rest, out=span)
    return tail


@compile_once(nogil=True, inline="always")
def weigh_times(
    potentials: Potentials,
    j: int,
    k: int,
    live: IntArray,
    code: int,
    row: FloatArray,
    free_at: int,
    n_devices: int,
    cut_at: int,
) -> float:
    """The weighted times of a partial placement before step k and the least cost of what follows.

    By set j of prices; ``code`` numbers the devices of the live slots as ``Potentials.rest`` does,
    ``row``, ``free_at`` and ``cut_at`` are those of ``place_task``.
    """
    # The price of all that follows given the slots' devices, then what the placement itself weighs.
    total: float = potentials.rest[j, potentials.first_rest[k] + code]
    for s in live:
        total += potentials.finish[j, k, s] * row[s]
    weight = potentials.cuts.weight
    for c in range(weight.shape[2]):
        total += weight[j, k, c] * row[cut_at + c]
    for device in range(n_devices):
        total += potentials.load[j, device] * row[free_at + device]
    return total
