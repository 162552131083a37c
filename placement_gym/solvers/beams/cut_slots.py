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
