"""The order in which tasks are placed, and the placed tasks that later steps read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.problem import Problem
from placement_gym.solvers import Tasks, fastest_ms

TINY_SHARE = 1e-5
"""Largest share of the sum of all tasks' fastest times that a tiny task takes. Hand-tuned."""
MANY_TASKS = 10_000
"""Above this number of tasks, the sum counts for as many mean ones, or all would be tiny.
Hand-tuned."""
NOTHING = -1


class Frontier(NamedTuple):
    """Each step places one task; a slot holds a placed task that later steps read.

    The operators of a unit count as reading each other: only the first one chooses a device.
    """

    order: IntArray  # (n,) task of each step
    step: IntArray  # (n,) step of each task
    ms: FloatArray  # (n, n_devices) time of the step's task; infinite where a device cannot run it
    unit_bytes: FloatArray  # (n,) bytes of the unit at its first task, else 0
    tiny: BoolArray  # (n,) bool, tasks that take almost no time and so do not wait for their device
    chain: IntArray  # (n,) slot of the unit's previous task, or ``NOTHING``
    slot: IntArray  # (n,) slot of the task, or ``NOTHING`` if nothing reads it
    first_read: IntArray  # (n + 1,) where each step's readings begin
    read_slot: IntArray  # (n_readings,) slot of the task that is read
    read_maker: IntArray  # (n_readings,) step of that task
    read_index: IntArray  # (n_readings,) index of the reading among those of the tasks' tensors
    read_ms: FloatArray  # (n_readings, n_devices, n_devices) time to move what is read
    first_live: IntArray  # (n + 2,) where the slots in use before each step begin
    live: IntArray  # the slots in use, ascending
    waits: BoolArray  # (n + 1,) bool, whether all later tasks wait for some task in a slot
    n_slots: int

    @classmethod
    def from_order(
        cls, problem: Problem, tasks: Tasks, order: IntArray, tiny: tuple[BoolArray, BoolArray]
    ) -> Frontier:
        """Lay out the steps of tasks in a topological order; ``tiny`` is that of ``find_tiny``."""
        n, (first_tiny, last_tiny) = len(tasks), tiny
        tensor, maker, reader = tasks.readings
        # A slot is held from a task's step to the last that reads it. Tasks of one unit count as
        # reading each other, because the next one needs its device.
        order = move_tiny(order, maker, reader, first_tiny, last_tiny)
        step = np.empty(n, dtype=np.int64)
        step[order] = np.arange(n)
        unit, previous = tasks.unit[order], np.full(n, NOTHING)  # task of the same unit
        by_unit = np.argsort(unit, kind="stable")
        same = unit[by_unit[1:]] == unit[by_unit[:-1]]
        previous[by_unit[1:][same]] = by_unit[:-1][same]
        last = np.full(n, NOTHING)
        np.maximum.at(last, step[maker], step[reader])
        chained = np.flatnonzero(previous >= 0)
        np.maximum.at(last, previous[chained], chained)
        held = np.flatnonzero(last > np.arange(n))
        slot = np.full(n, NOTHING)
        slot[held] = colour_intervals(held, last[held])
        # A slot is in use before every step from the next one to the last that reads it.
        spans = [np.arange(start + 1, last[start] + 1) for start in held]
        before = np.concatenate([np.empty(0, dtype=np.int64), *spans])
        live = np.repeat(slot[held], last[held] - held)
        by_step = np.lexsort((live, before))
        # Devices may be delayed to the first live finish only if nothing can start at 0.
        by_reader = np.argsort(step[reader], kind="stable")
        waits_for_nothing = np.bincount(reader[~first_tiny[maker]], minlength=n) == 0
        late = np.flatnonzero((waits_for_nothing & ~first_tiny)[order]).max(initial=NOTHING)
        return cls(
            order=order,
            step=step,
            ms=np.where(problem.possible[tasks.unit], tasks.ms, np.inf)[order],
            unit_bytes=np.where(previous < 0, problem.unit_bytes[tasks.unit[order]], 0.0),
            tiny=(first_tiny | last_tiny)[order],
            chain=np.where(previous >= 0, slot[previous], NOTHING),
            slot=slot,
            first_read=np.searchsorted(step[reader][by_reader], np.arange(n + 1)),
            read_slot=slot[step[maker[by_reader]]],
            read_maker=step[maker[by_reader]],
            read_index=by_reader,
            read_ms=tasks.transfer_ms[tensor[by_reader]],
            first_live=np.searchsorted(before[by_step], np.arange(n + 2)),
            live=live[by_step],
            waits=np.arange(n + 1) > late,
            n_slots=int(slot.max(initial=NOTHING)) + 1,
        )


def find_tiny(problem: Problem, tasks: Tasks) -> tuple[BoolArray, BoolArray]:
    """(n_tasks,) bool twice: tasks that take almost no time on any device that can run them.

    First those with only such ancestors; then, of the others, those with only such descendants.
    """
    _, maker, reader = tasks.readings
    slowest = np.where(problem.possible[tasks.unit], tasks.ms, 0.0).max(axis=1)
    fastest = fastest_ms(problem, tasks)
    total = np.where(np.isfinite(fastest), fastest, 0.0).sum() * min(MANY_TASKS / len(tasks), 1.0)
    first = slowest <= TINY_SHARE * total
    last = first.copy()
    for r in np.argsort(reader, kind="stable"):
        first[reader[r]] &= first[maker[r]]
    for r in np.argsort(-maker, kind="stable"):
        last[maker[r]] &= last[reader[r]]
    return first, last & ~first


def move_tiny(
    order: IntArray, maker: IntArray, reader: IntArray, first: BoolArray, last: BoolArray
) -> IntArray:
    """Move tiny first tasks right before their readers, tiny last ones right after their inputs.

    In a list schedule that can only make placements faster, since such a task then does not wait.
    """
    n = len(order)
    place = np.empty(n)
    place[order] = np.arange(n)
    soonest, latest = np.full(n, np.inf), np.full(n, -np.inf)
    for r in np.argsort(reader, kind="stable"):
        if not first[maker[r]]:
            latest[reader[r]] = max(latest[reader[r]], place[maker[r]])
            if last[reader[r]]:
                place[reader[r]] = latest[reader[r]]
    for r in np.argsort(-maker, kind="stable"):
        soonest[maker[r]] = min(soonest[maker[r]], place[reader[r]])
        if first[maker[r]]:
            place[maker[r]] = soonest[maker[r]]
    side = np.where(first, -1, np.where(last, 1, 0))
    return np.lexsort((np.arange(n), side, place))


def colour_intervals(begins: IntArray, ends: IntArray) -> IntArray:
    """(n,) the lowest numbers that differ between overlapping intervals."""
    colour = np.full(len(begins), NOTHING)
    free_from: list[int] = []
    for i in np.argsort(begins, kind="stable").tolist():
        usable = [number for number, until in enumerate(free_from) if until <= begins[i]]
        colour[i] = usable[0] if usable else len(free_from)
        if not usable:
            free_from.append(0)
        free_from[colour[i]] = int(ends[i])
    return colour
