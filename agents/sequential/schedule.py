"""A model of a placement's cost that is cheap enough to be asked thousands of times an evaluation.

Lists without waiting transfers, lists whose transfers queue at the device that they leave, serial
cost, and the largest load. Which of them holds follows from what the backend says of its schedule;
where it says nothing, cost is serial, as HETERO's is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.backends.protocol import Backend
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.tasks import Tasks

LIST, QUEUED, SERIAL, LOAD = range(4)
"""Kinds of model."""
KINDS = {"serial": SERIAL, "load": LOAD}
"""By schedule; others are lists."""


class Schedule(NamedTuple):
    """Operators in the order in which devices run them, and what they read.

    Attributes:
        kind: ``LIST``, ``QUEUED``, ``SERIAL`` or ``LOAD``.
        unit: (n,) the unit of each.
        ms: (n, n_devices) times.
        first: (n + 1,) where each operator's readings begin.
        maker: (n_readings,) the operator that makes the tensor.
        tensor: (n_readings,).
        first_made: (n + 1,) where the tensors begin that each operator makes.
        made: (n_tensors,) these tensors.
        first_reader: (n_tensors + 1,) where each tensor's readers begin.
        reader: (n_readings,) operators.
        transfer_ms: (n_tensors, n_devices, n_devices).
        boundary_ms: (n_tensors, n_devices).
    """

    kind: int
    unit: IntArray
    ms: FloatArray
    first: IntArray
    maker: IntArray
    tensor: IntArray
    first_made: IntArray
    made: IntArray
    first_reader: IntArray
    reader: IntArray
    transfer_ms: FloatArray
    boundary_ms: FloatArray

    @classmethod
    def of(cls, problem: Problem, costs: CostTable, backend: Backend) -> Schedule:
        """Make the model of what a backend evaluates."""
        kind, by_rank = choose_kind(backend)
        tasks = Tasks.of_operators(problem.units, costs)
        n, n_tensors = len(tasks), len(tasks.tensor)
        order = tasks.rank_order() if by_rank else np.arange(n)
        position = np.argsort(order)
        tensor, reader = tasks.tensors.readings()
        source, reader = position[tasks.tensors.source], position[reader]
        by_reader = np.argsort(reader, kind="stable")
        made = np.argsort(source, kind="stable")
        return cls(
            kind=kind,
            unit=tasks.unit[order].astype(np.int64),
            ms=np.ascontiguousarray(tasks.ms[order]),
            first=np.searchsorted(reader[by_reader], np.arange(n + 1)),
            maker=source[tensor[by_reader]],
            tensor=tensor[by_reader],
            first_made=np.searchsorted(source[made], np.arange(n + 1)),
            made=made,
            first_reader=np.searchsorted(tensor, np.arange(n_tensors + 1)),
            reader=reader,
            transfer_ms=np.ascontiguousarray(tasks.transfer_ms),
            boundary_ms=np.ascontiguousarray(costs.boundary_ms[tasks.tensor]),
        )


def choose_kind(backend: Backend) -> tuple[int, bool]:
    """The kind of model of a backend, and whether operators run by upward rank."""
    backend = find_innermost(backend)
    objective = find_measured_objective(backend)
    if objective:
        return LOAD if objective == "throughput" else SERIAL, False
    semantics = getattr(backend, "semantics", None)
    if semantics is None:
        return SERIAL, False
    listed = QUEUED if semantics.contention in ("source", "both", "link") else LIST
    return KINDS.get(semantics.schedule, listed), semantics.order == "priority"


def find_innermost(backend: Backend) -> Backend:
    """What evaluates, below all wrappers."""
    while hasattr(backend, "inner"):
        backend = backend.inner
    return backend


def find_measured_objective(backend: Backend) -> str:
    """``"latency"`` or ``"throughput"`` if a backend measures it, else an empty string."""
    protocol = getattr(find_innermost(backend), "protocol", None)
    return str(getattr(protocol, "objective", ""))


class Space(NamedTuple):
    """Space for what the model computes.

    Attributes:
        finish: (n,) when operators finish.
        free: (n_devices,) when devices are free; or their loads.
        channel: (n_devices,) when what leaves them may leave.
        arrival: (n_tensors, n_devices) when tensors are there; or the pass that sent them.
        passes: (1,) number of estimates so far.
    """

    finish: FloatArray
    free: FloatArray
    channel: FloatArray
    arrival: FloatArray
    passes: FloatArray


@njit(cache=True, nogil=True)
def make_space(schedule: Schedule) -> Space:
    """Space for a schedule."""
    n, d = schedule.ms.shape
    n_tensors = len(schedule.boundary_ms)
    arrival = np.zeros((n_tensors, d))
    return Space(np.zeros(n), np.zeros(d), np.zeros(d), arrival, np.zeros(1))


@njit(cache=True, nogil=True)
def estimate_all(schedule: Schedule, placements: IntArray) -> FloatArray:
    """(k,) what (k, n_units) placements cost, in ms; limits ignored."""
    space, costs_ms = make_space(schedule), np.empty(len(placements))
    for k in range(len(placements)):
        costs_ms[k] = estimate(schedule, space, placements[k])
    return costs_ms


@njit(cache=True, nogil=True, error_model="numpy")
def estimate(schedule: Schedule, space: Space, place: IntArray) -> float:
    """What (n_units,) devices cost, in ms; times are left in ``space``."""
    if schedule.kind == SERIAL:
        return add_up(schedule, space, place)
    if schedule.kind == LOAD:
        return find_largest_load(schedule, space, place)
    if schedule.kind == QUEUED:
        return list_with_queues(schedule, space, place)
    unit, ms, transfer_ms = schedule.unit, schedule.ms, schedule.transfer_ms
    first, maker, tensor = schedule.first, schedule.maker, schedule.tensor
    finish, free = space.finish, space.free
    free[:] = 0.0
    for i in range(len(unit)):
        here = place[unit[i]]
        ready = free[here]
        for r in range(first[i], first[i + 1]):
            m = maker[r]
            ready = max(ready, finish[m] + transfer_ms[tensor[r], place[unit[m]], here])
        finish[i] = free[here] = ready + ms[i, here]
    return float(free.max())


@njit(cache=True, nogil=True, error_model="numpy")
def list_with_queues(schedule: Schedule, space: Space, place: IntArray) -> float:
    """The last finish, where transfers from one device wait for each other."""
    unit, ms, transfer_ms = schedule.unit, schedule.ms, schedule.transfer_ms
    finish, free, channel, arrival = space.finish, space.free, space.channel, space.arrival
    free[:] = 0.0
    channel[:] = 0.0
    for i in range(len(unit)):
        here = place[unit[i]]
        ready = free[here]
        for r in range(schedule.first[i], schedule.first[i + 1]):
            ready = max(ready, arrival[schedule.tensor[r], here])
        finish[i] = free[here] = ready + ms[i, here]
        for at in range(schedule.first_made[i], schedule.first_made[i + 1]):
            t = schedule.made[at]
            arrival[t] = -1.0
            arrival[t, here] = finish[i]
            for r in range(schedule.first_reader[t], schedule.first_reader[t + 1]):
                there = place[unit[schedule.reader[r]]]
                if arrival[t, there] < 0.0:
                    channel[here] = max(channel[here], finish[i]) + transfer_ms[t, here, there]
                    arrival[t, there] = channel[here]
    return float(free.max())


@njit(cache=True, nogil=True, error_model="numpy")
def add_up(schedule: Schedule, space: Space, place: IntArray) -> float:
    """The sum of all times and transfers; operators finish one after another."""
    unit, arrival = schedule.unit, space.arrival
    space.passes[0] += 1.0
    now, total = space.passes[0], 0.0
    for i in range(len(unit)):
        here = place[unit[i]]
        for r in range(schedule.first[i], schedule.first[i + 1]):
            t = schedule.tensor[r]
            if arrival[t, here] != now:
                arrival[t, here] = now
                total += schedule.transfer_ms[t, place[unit[schedule.maker[r]]], here]
        total += schedule.ms[i, here]
        space.finish[i] = total
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def find_largest_load(schedule: Schedule, space: Space, place: IntArray) -> float:
    """The largest load; a tensor counts where it leaves and wherever it is read."""
    unit, load, arrival = schedule.unit, space.free, space.arrival
    space.passes[0] += 1.0
    now = space.passes[0]
    load[:] = 0.0
    for i in range(len(unit)):
        here = place[unit[i]]
        load[here] += schedule.ms[i, here]
        for r in range(schedule.first[i], schedule.first[i + 1]):
            t, there = schedule.tensor[r], place[unit[schedule.maker[r]]]
            if there == here or arrival[t, here] == now:
                continue
            arrival[t, here] = now
            load[here] += schedule.boundary_ms[t, here]
            if arrival[t, there] != now:
                arrival[t, there] = now
                load[there] += schedule.boundary_ms[t, there]
    return float(load.max())
