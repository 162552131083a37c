"""What the decoder sees of each device while it places one unit: numbers without scale."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from agents.sequential.board import Board
from placement_gym.arrays import BoolArray, Float32Array, FloatArray, IntArray
from placement_gym.solvers.decoder import NOWHERE

FEATURES = (
    "gap to the best device in what the greedy choice minimises",
    "advantage over the best other device in it",
    "whether it is the greedy choice",
    "gap in start",
    "gap in arrival of inputs",
    "idle time before the start",
    "gap in load",
    "finish against the last finish and the work that remains",
    "slack on the longest path",
    "gap in the earliest finish of the first reader",
    "whether the critical input is here",
    "share of inputs here",
    "whether the last unit went here",
    "whether any unit went here",
    "room left after the unit, over the limit",
    "room left, over itself and the bytes that remain",
    "room left on all devices, over itself and the bytes that remain",
    "share of tasks decided",
    "whether the plan puts the unit here",
    "whether the unit takes room that the plan gives to others",
    "room left after the unit and what the plan still puts here, over the limit",
    "gap to the best device in what the greedy choice minimises, as a logarithm",
)
"""Columns of the features of a step; times are relative to the mean time of a unit."""
N_FEATURES = len(FEATURES)
PLANNED, DISPLACES = 18, 19
"""Columns about the plan."""


class State(NamedTuple):
    """A partial placement, updated in place; and space for what is computed at a step.

    Attributes:
        device: (n_units,) devices, or ``NOWHERE``.
        finish: (n_tasks,) when tasks finish.
        free: (n_devices,) when devices are free.
        added: (1,) work and transfers of all devices.
        load: (n_devices,) work and transfers, as schedule ``load`` counts them.
        used: (n_devices,) bytes.
        reserved: (n_devices,) bytes of undecided units that the plan puts there.
        here: (n_tensors, n_devices) bool, where tensors are read.
        left: (n_tensors,) bool, whether they have left their device.
        arrival: (n_devices,) when the inputs of a task are on each device.
        shared: (n_devices,) mean transfer of the inputs that are there already.
        goal: (n_devices,) what the greedy choice minimises, in ms.
        allowed: (n_devices,) bool, devices that support the unit and have room.
        seen: (n_devices, N_FEATURES).
        trial: (n_devices,) space.
    """

    device: IntArray
    finish: FloatArray
    free: FloatArray
    added: FloatArray
    load: FloatArray
    used: FloatArray
    reserved: FloatArray
    here: BoolArray
    left: BoolArray
    arrival: FloatArray
    shared: FloatArray
    goal: FloatArray
    allowed: BoolArray
    seen: Float32Array
    trial: FloatArray


@njit(cache=True, nogil=True, error_model="numpy")
def make_state(board: Board) -> State:
    """Make a state in which nothing is placed."""
    n_tasks, d = board.decoder.ms.shape
    n_units, n_tensors = len(board.decoder.unit_bytes), len(board.mean_ms)
    return State(
        np.full(n_units, NOWHERE, np.int64),
        np.zeros(n_tasks),
        np.zeros(d),
        np.zeros(1),
        np.zeros(d),
        np.zeros(d),
        np.zeros(d),
        np.zeros((n_tensors, d), np.bool_),
        np.zeros(n_tensors, np.bool_),
        np.zeros(d),
        np.zeros(d),
        np.zeros(d),
        np.zeros(d, np.bool_),
        np.zeros((d, N_FEATURES), np.float32),
        np.zeros(d),
    )


@njit(cache=True, nogil=True)
def clear(board: Board, state: State) -> None:
    """Take everything off again."""
    state.device[:] = NOWHERE
    state.free[:] = 0.0
    state.added[:] = 0.0
    state.load[:] = 0.0
    state.used[:] = 0.0
    state.reserved[:] = board.planned_bytes
    state.here[:] = False
    state.left[:] = False


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def squash(value: float) -> float:
    """Map any number to (-1, 1)."""
    return value / (1.0 + abs(value))


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def see(
    board: Board, state: State, task: int, critical: int, last: int, end: float, path: float
) -> None:
    """Fill ``state.seen``.

    Args:
        board: The problem.
        state: With arrivals, goals and allowed devices of the task.
        task: The task that is decided.
        critical: The device of its latest input, or ``NOWHERE``.
        last: The device of the unit before, or ``NOWHERE``.
        end: When the last task so far finishes.
        path: The longest path through the tasks so far.
    """
    decoder = board.decoder
    limits, unit_ms = decoder.limits_bytes, decoder.unit_ms
    arrivals, frees, goals = state.arrival, state.free, state.goal
    allowed, used, shared = state.allowed, state.used, state.shared
    trial, seen = state.trial, state.seen
    scale, unit, n_devices = decoder.scale_ms, decoder.unit[task], len(frees)
    best, second, chosen = np.inf, np.inf, NOWHERE
    start, arrival, free, room = np.inf, np.inf, np.inf, 0.0
    for d in range(n_devices):
        if allowed[d]:
            if goals[d] < best:
                best, second, chosen = goals[d], best, d
            elif goals[d] < second:
                second = goals[d]
            start = min(start, max(arrivals[d], frees[d]))
            arrival, free = min(arrival, arrivals[d]), min(free, frees[d])
            room += limits[d] - used[d]
    bytes_left, held = board.bytes_left[task], decoder.unit_bytes[unit]
    work, tail = board.work_ms[task] + scale, board.tail_ms[task] - path
    after, done = bytes_left - held, task / len(decoder.unit)
    everywhere = 1.0
    if room < np.inf:
        everywhere = room / (room + bytes_left) if room + bytes_left > 0.0 else 0.0
    inputs = 0.0
    for reading in range(decoder.first[task], decoder.first[task + 1]):
        inputs += board.mean_ms[decoder.tensor[reading]]
    nearest = np.inf
    for d in range(n_devices):
        if allowed[d]:
            begin = max(arrivals[d], frees[d])
            finish = begin + unit_ms[unit, d]
            trial[d] = finish_child(board, state, task, d, finish)
            nearest = min(nearest, trial[d])
    for d in range(n_devices):
        if not allowed[d]:
            continue
        begin = max(arrivals[d], frees[d])
        finish = begin + unit_ms[unit, d]
        other = second if d == chosen else best
        limit = limits[d]
        left = limit - used[d] - held
        seen[d, 0] = squash((goals[d] - best) / scale)
        seen[d, 1] = squash((other - goals[d]) / scale) if other < np.inf else 1.0
        seen[d, 2] = d == chosen
        seen[d, 3] = squash((begin - start) / scale)
        seen[d, 4] = squash((arrivals[d] - arrival) / scale)
        seen[d, 5] = squash((begin - frees[d]) / scale)
        seen[d, 6] = squash((frees[d] - free) / scale)
        seen[d, 7] = squash((finish - end) / work)
        seen[d, 8] = squash((finish + tail) / scale)
        seen[d, 9] = squash((trial[d] - nearest) / scale)
        seen[d, 10] = d == critical
        seen[d, 11] = shared[d] / inputs if inputs > 0.0 else 0.0
        seen[d, 12] = d == last
        seen[d, 13] = frees[d] > 0.0
        seen[d, 14], seen[d, 15] = 1.0, 1.0
        if limit < np.inf:
            seen[d, 14] = max(left, 0.0) / limit if limit > 0.0 else 0.0
            seen[d, 15] = max(left, 0.0) / (max(left, 0.0) + after) if left + after > 0.0 else 0.0
        seen[d, 16] = everywhere
        seen[d, 17] = done
        planned = board.plan[unit] == d
        seen[d, PLANNED] = planned
        seen[d, DISPLACES], seen[d, 20] = 0.0, 1.0
        if limit < np.inf:
            slack = left - state.reserved[d] + (held if planned else 0.0)
            seen[d, DISPLACES] = slack < 0.0 and held > 0.0
            seen[d, 20] = max(slack / limit, -1.0) if limit > 0.0 else 0.0
        seen[d, 21] = squash(np.log(1.0 + (goals[d] - best) / scale))


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def finish_child(board: Board, state: State, task: int, d: int, finish: float) -> float:
    """The earliest finish of the first task that reads from one which finishes on device ``d``."""
    decoder, child = board.decoder, board.child[task]
    if child == NOWHERE:
        return finish
    unit, tensor = decoder.unit[child], board.child_tensor[task]
    best, slowest = np.inf, 0.0
    for there in range(len(state.free)):
        slowest = max(slowest, decoder.ms[child, there])
        held = state.used[there] + decoder.unit_bytes[unit]
        if there == d:
            held += decoder.unit_bytes[decoder.unit[task]]
        if decoder.supported[unit, there] and held <= decoder.limits_bytes[there]:
            arrival = finish + decoder.transfer_ms[tensor, d, there]
            best = min(best, max(arrival, state.free[there]) + decoder.ms[child, there])
    return best if best < np.inf else finish + slowest
