"""Interval load cuts of partial placements: what is known of each as tasks are placed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.solvers.beams.frontier import NOTHING, Frontier, colour_intervals
from placement_gym.solvers.beams.prices import RowPrices
from placement_gym.solvers.programs import END, START, LoadCuts

SLOT, DEVICE = 0, 1
"""Columns of ``CutSlots.inside``."""


class CutSlots(NamedTuple):
    """A slot holds the finish of a cut's first task, plus the time of its tasks placed since.

    Attributes:
        weight: (n_sets, n + 1, n_slots) price of the cut in each slot before each step, or 0.
        first_begin: (n + 1,) where the slots that begin with each step's finish begin.
        begin: Slots.
        first_inside: (n + 1,) where the slots to which each step adds its time begin.
        inside: (..., 2) slots and the devices on which it does.
    """

    weight: FloatArray
    first_begin: IntArray
    begin: IntArray
    first_inside: IntArray
    inside: IntArray


def assign_cuts(
    frontier: Frontier, cuts: LoadCuts, sets: list[RowPrices], ms: FloatArray
) -> tuple[CutSlots, FloatArray]:
    """Assign slots to the cuts that have a positive price in some set.

    Args:
        frontier: The steps.
        cuts: The cuts.
        sets: Prices of rows.
        ms: (n, n_devices) time of each step.

    Returns:
        The slots; and (n_sets, n, n_devices) price of each step's time in all cuts.
    """
    n, d = ms.shape
    prices = np.stack([group.cut for group in sets])
    priced = np.flatnonzero(prices.any(axis=0))
    every = np.array(cuts.added, dtype=np.int64).reshape(-1, 4)[priced, :3]
    begins, ends = find_spans(frontier, every)
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
    slots_of = CutSlots(
        weight,
        np.cumsum([0, *map(len, starting)]),
        np.array([slot for step_slots in starting for slot in step_slots], dtype=np.int64),
        np.cumsum([0, *map(len, within)]),
        np.array([pair for step_pairs in within for pair in step_pairs], dtype=np.int64).reshape(
            -1, 2
        ),
    )
    return slots_of, cost


def find_spans(frontier: Frontier, cuts: IntArray) -> tuple[IntArray, IntArray]:
    """(n_cuts,) first step that counts for each of (n_cuts, 3) cuts, and first that does not."""
    n = len(frontier.order)
    first, last, _ = cuts.T
    begins = np.where(first == START, 0, frontier.step[first] + 1)
    ends = np.where(last == END, n + 1, frontier.step[last] + 1)
    return begins, ends
