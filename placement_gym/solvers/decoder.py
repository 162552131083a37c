"""A list scheduler that decodes preferences into placements, compiled and in batches.

Tasks are placed in rank order. Each unit goes where its work would finish first, adjusted by a
preference for devices; a device that has no room for it is left out. Tasks of a device run in rank
order and leave gaps unfilled, and transfers never wait for each other: where units are operators,
this is the schedule ``list`` with order ``priority``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.arrays import BoolArray, FloatArray, IntArray, UInt32
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.tasks import Tasks

NOWHERE = -1


class Decoder(NamedTuple):
    """What the kernel reads of a problem; tasks and readings are in rank order.

    Attributes:
        unit: (n_tasks,) uint32, the unit of each task.
        ms: (n_tasks, n_devices) times.
        first: (n_tasks + 1,) uint32, where each task's readings begin.
        maker: (n_readings,) uint32, the task that makes the tensor.
        tensor: (n_readings,) uint32.
        transfer_ms: (n_tensors, n_devices, n_devices) times.
        unit_ms: (n_units, n_devices) time of each unit's tasks.
        supported: (n_units, n_devices) bool, whether the device runs the unit.
        unit_bytes: (n_units,) memory of each unit.
        limits_bytes: (n_devices,) memory of each device.
        fill: (n_units, n_devices) share of each device's memory that a unit takes.
        scale_ms: Delay of a finish that offsets a preference of 1.
    """

    unit: UInt32
    ms: FloatArray
    first: UInt32
    maker: UInt32
    tensor: UInt32
    transfer_ms: FloatArray
    unit_ms: FloatArray
    supported: BoolArray
    unit_bytes: FloatArray
    limits_bytes: FloatArray
    fill: FloatArray
    scale_ms: float

    @classmethod
    def of(cls, problem: Problem, costs: CostTable) -> Decoder:
        """Make the decoder of a problem: of its units, or of operators if units form cycles."""
        tasks = Tasks.in_topological_order(problem.units, costs)
        order = tasks.rank_order()
        position = np.argsort(order)
        tensor, reader = tasks.tensors.readings()
        by_reader = np.argsort(position[reader], kind="stable")
        counts = np.bincount(position[reader], minlength=len(tasks))
        unit_ms = costs.unit_ms(problem.units)
        held, limits = problem.unit_bytes, problem.limits_bytes
        return cls(
            unit=tasks.unit[order].astype(np.uint32),
            ms=np.ascontiguousarray(tasks.ms[order]),
            first=np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32),
            maker=position[tasks.tensors.source[tensor[by_reader]]].astype(np.uint32),
            tensor=tensor[by_reader].astype(np.uint32),
            transfer_ms=np.ascontiguousarray(tasks.transfer_ms),
            unit_ms=np.ascontiguousarray(unit_ms),
            supported=np.ascontiguousarray(problem.supported),
            unit_bytes=held,
            limits_bytes=limits,
            fill=held[:, None] / np.where(limits > 0.0, limits, np.inf),
            scale_ms=float(unit_ms.mean()) or 1.0,
        )


@njit(cache=True, nogil=True)
def decode(decoder: Decoder, run: UInt32, preference: FloatArray, price: FloatArray) -> IntArray:
    """(k, n_units) devices, of ``k`` samples.

    A unit that fits nowhere goes to the device that supports it and has the most room left; ties go
    to the first device.

    Args:
        decoder: The problem.
        run: (k, n_tasks) uint32, the row of ``preference`` that applies to each task, in rank
            order; the first task of a unit decides.
        preference: (n_rows, n_devices), added to -finish / ``scale_ms``.
        price: (k,), of a device's whole memory; units pay their share of it.
    """
    k, n_tasks = run.shape
    n_units, n_devices = decoder.unit_ms.shape
    placements = np.full((k, n_units), NOWHERE, np.int64)
    finish = np.empty(n_tasks)
    ready, free, used = np.empty(n_devices), np.empty(n_devices), np.empty(n_devices)
    wanted = np.empty(n_devices)
    for sample in range(k):
        device = placements[sample]
        free[:] = 0.0
        used[:] = 0.0
        for task in range(n_tasks):
            unit = decoder.unit[task]
            ready[:] = free
            for reading in range(decoder.first[task], decoder.first[task + 1]):
                maker, tensor = decoder.maker[reading], decoder.tensor[reading]
                there = device[decoder.unit[maker]]
                for d in range(n_devices):
                    arrival = finish[maker] + decoder.transfer_ms[tensor, there, d]
                    ready[d] = max(ready[d], arrival)
            if device[unit] == NOWHERE:
                row = run[sample, task]
                for d in range(n_devices):
                    wanted[d] = preference[row, d] - price[sample] * decoder.fill[unit, d]
                device[unit] = choose(decoder, unit, ready, used, wanted)
                used[device[unit]] += decoder.unit_bytes[unit]
            here = device[unit]
            finish[task] = ready[here] + decoder.ms[task, here]
            free[here] = finish[task]
    return placements


@njit(cache=True, nogil=True)
def choose(
    decoder: Decoder, unit: int, ready: FloatArray, used: FloatArray, wanted: FloatArray
) -> int:
    """Choose a unit's device.

    Args:
        decoder: The problem.
        unit: The unit.
        ready: (n_devices,) when it could start on each device.
        used: (n_devices,) bytes that each device holds already.
        wanted: (n_devices,) preferences.
    """
    chosen, roomiest = NOWHERE, NOWHERE
    best, most = -np.inf, -np.inf
    for d in range(len(ready)):
        if not decoder.supported[unit, d]:
            continue
        room = decoder.limits_bytes[d] - used[d]
        if roomiest == NOWHERE or room > most:
            roomiest, most = d, room
        if used[d] + decoder.unit_bytes[unit] <= decoder.limits_bytes[d]:
            finish = ready[d] + decoder.unit_ms[unit, d]
            score = wanted[d] - finish / decoder.scale_ms
            if chosen == NOWHERE or score > best:
                chosen, best = d, score
    return roomiest if chosen == NOWHERE else chosen
