"""Earliest finish times and remaining times of tasks, for any placement or for a given one."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.solvers.placeable import Placeable
from placement_gym.solvers.tasks import Tasks


def fastest_ms(problem: Placeable, tasks: Tasks) -> FloatArray:
    """(n_tasks,) minimum time of each task; infinite where no device can run it."""
    least: FloatArray = np.where(problem.possible[tasks.unit], tasks.ms, np.inf).min(axis=1)
    return least


def mean_load_ms(problem: Placeable, tasks: Tasks) -> float:
    """The mean load of devices, or the longest task if that is longer, at minimum times."""
    fastest = fastest_ms(problem, tasks)
    return float(max(fastest.sum() / len(problem.limits_bytes), fastest.max()))


def earliest_finish_ms(problem: Placeable, tasks: Tasks) -> FloatArray:
    """(n_tasks,) earliest possible finish of each task in any placement, ms."""
    least: FloatArray = earliest_on_devices_ms(problem, tasks).min(axis=1)
    return least


def earliest_on_devices_ms(problem: Placeable, tasks: Tasks) -> FloatArray:
    """(n_tasks, n_devices) earliest possible finish of each task on each device, ms.

    finish[v, d] = ms[v, d] + max over inputs u of min over d' of finish[u, d'] + transfer; infinite
    where the device cannot run the task.
    """
    finish = np.where(problem.possible[tasks.unit], tasks.ms, np.inf)
    ready = np.zeros_like(finish)
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source[tensor]
    for r in np.argsort(maker, kind="stable"):
        done = ready[maker[r]] + finish[maker[r]]
        arrival = (done[:, None] + tasks.transfer_ms[tensor[r]]).min(axis=0)
        ready[reader[r]] = np.maximum(ready[reader[r]], arrival)
    earliest: FloatArray = ready + finish
    return earliest


def remaining_ms(problem: Placeable, tasks: Tasks) -> FloatArray:
    """(n_tasks,) minimum time that any placement needs after each task has finished, ms."""
    fastest = fastest_ms(problem, tasks)
    rest = np.zeros(len(tasks))
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source[tensor]
    for r in np.argsort(-maker, kind="stable"):
        rest[maker[r]] = max(rest[maker[r]], fastest[reader[r]] + rest[reader[r]])
    return rest


def longest_path_or_load_ms(tasks: Tasks, assignment: IntArray) -> float:
    """The least that any overlapping schedule of an (n_units,) assignment can take.

    This is the longest path with transfers, or the largest sum of times on one device.
    """
    on = assignment[tasks.unit]
    ms = tasks.ms[np.arange(len(tasks)), on]
    finish = ms.copy()
    tensor, reader = tasks.tensors.readings()
    maker = tasks.tensors.source[tensor]
    transfer_ms = tasks.transfer_ms[tensor, on[maker], on[reader]]
    for r in np.argsort(maker, kind="stable"):
        late = finish[maker[r]] + transfer_ms[r] + ms[reader[r]]
        finish[reader[r]] = max(finish[reader[r]], late)
    return float(max(finish.max(), np.bincount(on, ms).max()))
