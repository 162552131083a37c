"""Lower bounds on completing a partial placement, from prices of the path-load program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, IntArray, compile_once
from placement_gym.problem import Problem
from placement_gym.solvers import Optimum, Solver, Tasks
from placement_gym.solvers.beams.frontier import NOTHING, Frontier, colour_intervals
from placement_gym.solvers.programs import END, START, LoadCuts, PathProgram, tighten

SCALES = (1.0, 0.7, 0.4)
"""Limits of memory for which prices are computed, as shares of the true ones. Hand-tuned."""
MIN_CUT_PRICE = 1e-7
"""Lower prices of cuts count as zero. Hand-tuned: about the solver's tolerance."""
SLOT, DEVICE = 0, 1
"""Columns of ``CutSlots.inside``."""


class RowPrices(NamedTuple):
    """Prices of rows; any nonnegative prices give a lower bound."""

    first: FloatArray  # (n_tasks,) of the row of a task without inputs
    last: FloatArray  # (n_tasks,) of the row of a task that nothing reads
    reading: FloatArray  # (n_readings,) of the rows of each reading together
    load: FloatArray  # (n_devices,) of the load of a device
    memory: FloatArray  # (n_groups,) ms per byte, of the groups of ``Problem.memory``
    cut: FloatArray  # (n_cuts,) of interval load cuts

    @classmethod
    def from_cuts(cls, problem: Problem, cuts: LoadCuts, price: FloatArray) -> RowPrices:
        """Group the prices of rows by what the rows constrain."""
        built, price = cuts.built, np.abs(price)
        n, d = built.tasks.ms.shape
        n_readings, n_groups = len(built.tasks.tensors.readers), len(problem.memory.limits_bytes)
        sizes = {"first": n, "last": n, "reading": n_readings, "load": d, "memory": n_groups}
        about = {name: np.zeros(size) for name, size in sizes.items()}
        for name, values in about.items():
            for row, numbers in built.rows[name]:
                values[numbers] += price[row : row + len(numbers)]
        about["memory"] /= max(problem.unit_bytes.max(), 1.0)
        cut = np.zeros(len(cuts.added))
        priced = [number for number, (*_, row) in enumerate(cuts.added) if row < len(price)]
        cut[priced] = price[[cuts.added[number][-1] for number in priced]]
        return cls(**about, cut=np.where(cut > MIN_CUT_PRICE, cut, 0.0))


def find_prices(
    problem: Problem, tasks: Tasks, end: float
) -> tuple[LoadCuts, list[RowPrices], float]:
    """Solve the program with divided units at several limits of memory.

    Prices at a lower limit give better bounds for partial placements that have used more than their
    share of memory. The bound, at the true limit, is infinite if nothing is feasible.
    """
    built = PathProgram.build(problem, tasks, whole=False)
    solver, cuts = Solver(built.program, whole=False), LoadCuts(built)
    ((first, groups),) = built.rows["memory"]
    rows = first + np.arange(len(groups))
    limits = problem.memory.limits_bytes[groups] / max(problem.unit_bytes.max(), 1.0)
    points: list[Optimum] = []
    for share in SCALES if len(groups) else SCALES[:1]:
        solver.limit(rows, share * limits)
        solved, optimum = tighten(solver, cuts, end)
        if solved is None:
            break
        points.append(solved)
    prices = [point.prices for point in points if point.prices is not None]
    sets = [RowPrices.from_cuts(problem, cuts, each) for each in prices]
    return cuts, sets, points[0].bound if points else optimum.bound


class CutSlots(NamedTuple):
    """A slot holds the finish of a cut's first task, plus the time of its tasks placed since."""

    # (n_sets, n + 1, n_slots) price of the cut in each slot before each step, or 0
    weight: FloatArray
    first_begin: IntArray  # (n + 1,) where the slots that begin with each step's finish begin
    begin: IntArray  # these slots
    first_inside: IntArray  # (n + 1,) where the slots to which each step adds its time begin
    inside: IntArray  # (..., 2) these slots, and the devices on which it does


def assign_cuts(
    frontier: Frontier, cuts: LoadCuts, sets: list[RowPrices], ms: FloatArray
) -> tuple[CutSlots, FloatArray]:
    """Assign slots to the cuts that have a positive price in some set.

    Also returns (n_sets, n, n_devices), the price of each step's time, (n, n_devices), in all cuts.
    """
    n, d = ms.shape
    prices = np.stack([group.cut for group in sets])
    priced = np.flatnonzero(prices.any(axis=0))
    every = np.array(cuts.added, dtype=np.int64).reshape(-1, 4)[priced, :3]
    # the first step that counts for each cut, and the first that does not
    first_task, last_task, _ = every.T
    begins = np.where(first_task == START, 0, frontier.step[first_task] + 1)
    ends = np.where(last_task == END, n + 1, frontier.step[last_task] + 1)
    slots = colour_intervals(begins, ends)
    weight = np.zeros((len(sets), n + 1, int(slots.max(initial=NOTHING)) + 1))
    cost = np.zeros((len(sets), n, d))
    starting: list[list[int]] = [[] for _ in range(n)]
    within: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for i, (first, last, device) in enumerate(every.tolist()):
        slot, price = int(slots[i]), prices[:, [priced[i]]]
        weight[:, begins[i] : ends[i], slot] = price
        if first != START:
            starting[frontier.step[first]].append(slot)
        steps = frontier.step[np.flatnonzero(cuts.inside(first, last))]
        for step in steps:
            within[step].append((slot, device))
        cost[:, steps, device] += price * ms[steps, device]
        # The last task counts on other devices, too.
        if last != END:
            others = np.flatnonzero(np.arange(d) != device)
            cost[:, frontier.step[last], others] += price * ms[frontier.step[last], others]
    inside = np.array([pair for of_step in within for pair in of_step], dtype=np.int64)
    cut_slots = CutSlots(
        weight,
        first_begin=np.cumsum([0, *map(len, starting)]),
        begin=np.array([slot for of_step in starting for slot in of_step], dtype=np.int64),
        first_inside=np.cumsum([0, *map(len, within)]),
        inside=inside.reshape(-1, 2),
    )
    return cut_slots, cost


class Potentials(NamedTuple):
    """Lower bounds of the latency of all completions of a partial placement.

    Before step k, and for set j of prices, a bound is the weighted sum of the finishes in slots,
    those that cuts imply, the times at which devices are free and the memory in use; plus the least
    cost of later steps given the devices of the slots.
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
        # Zero where a device cannot run the task, as infinity times zero is not a number; its price
        # becomes infinite below.
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
        # A slot's finish weighs as much as all its later readings.
        finish = np.zeros((len(sets), n + 1, max(frontier.n_slots, 1)))
        for r, (maker, until) in enumerate(zip(frontier.read_maker, reader, strict=True)):
            finish[:, maker + 1 : until + 1, frontier.read_slot[r]] += reading[:, [r]]
        # A device pays the price of its pool, whose limit counts once.
        group_prices = np.stack([prices.memory for prices in sets])
        limits = np.where(np.isfinite(groups.limits_bytes), groups.limits_bytes, 0.0)
        # A value for each assignment of devices to the live slots: few slots keep this small.
        sizes = d ** np.diff(frontier.first_live)
        first_rest = np.concatenate([[0], np.cumsum(sizes)])
        return cls(
            finish=finish,
            cuts=intervals,
            last=np.stack([prices.last[frontier.order] for prices in sets]),
            load=np.stack([prices.load for prices in sets]),
            memory=group_prices[:, groups.of_device],
            constant=-group_prices @ limits,
            first_rest=first_rest,
            rest=find_rest(frontier, first_rest, unary, reading),
        )


@compile_once(nogil=True)
def find_rest(
    frontier: Frontier, first_rest: IntArray, unary: FloatArray, reading: FloatArray
) -> FloatArray:
    """Compute ``Potentials.rest``.

    ``unary``, (n_sets, n, n_devices), prices each step's task on each device; ``reading``, (n_sets,
    n_readings), each reading per ms.
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
    """(n + 1, n_slots, n_devices) least time in ms after the finish in each slot, by step."""
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
    """The weighted times of a partial placement before step k, plus the least cost of later steps.

    By set j of prices; ``code`` numbers the devices of live slots as in ``Potentials.rest``.
    """
    total: float = potentials.rest[j, potentials.first_rest[k] + code]
    for s in live:
        total += potentials.finish[j, k, s] * row[s]
    weight = potentials.cuts.weight
    for c in range(weight.shape[2]):
        total += weight[j, k, c] * row[cut_at + c]
    for device in range(n_devices):
        total += potentials.load[j, device] * row[free_at + device]
    return total
