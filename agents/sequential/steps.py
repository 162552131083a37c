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
)
"""Columns of the features of a step; times are relative to the mean time of a unit."""
N_FEATURES = len(FEATURES)


class State(NamedTuple):
    """A partial placement, updated in place; and space for what is computed at a step.

    Attributes:
        device: (n_units,) devices, or ``NOWHERE``.
        finish: (n_tasks,) when tasks finish.
        free: (n_devices,) when devices are free.
        load: (n_devices,) work and transfers, as schedule ``load`` counts them.
        used: (n_devices,) bytes.
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
    load: FloatArray
    used: FloatArray
    here: BoolArray
    left: BoolArray
    arrival: FloatArray
    shared: FloatArray
    goal: FloatArray
    allowed: BoolArray
    seen: Float32Array
    trial: FloatArray


@njit(cache=True, nogil=True)
def make_state(board: Board) -> State:
    """Make a state in which nothing is placed."""
    n_tasks, d = board.decoder.ms.shape
    n_units, n_tensors = len(board.decoder.unit_bytes), len(board.mean_ms)
    return State(
        np.full(n_units, NOWHERE, np.int64),
        np.zeros(n_tasks),
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
def clear(state: State) -> None:
    """Take everything off again."""
    state.device[:] = NOWHERE
    state.free[:] = 0.0
    state.load[:] = 0.0
    state.used[:] = 0.0
    state.here[:] = False
    state.left[:] = False


@njit(cache=True, nogil=True)
def squash(value: float) -> float:
    """Map any number to (-1, 1)."""
    return value / (1.0 + abs(value))


@njit(cache=True, nogil=True)
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
    scale, unit = decoder.scale_ms, decoder.unit[task]
    n_devices = len(state.free)
    best, second, chosen = np.inf, np.inf, NOWHERE
    start, arrival, free, room = np.inf, np.inf, np.inf, 0.0
    for d in range(n_devices):
        if state.allowed[d]:
            if state.goal[d] < best:
                best, second, chosen = state.goal[d], best, d
            elif state.goal[d] < second:
                second = state.goal[d]
            start = min(start, max(state.arrival[d], state.free[d]))
            arrival, free = min(arrival, state.arrival[d]), min(free, state.free[d])
            room += decoder.limits_bytes[d] - state.used[d]
    bytes_left = board.bytes_left[task]
    after = bytes_left - decoder.unit_bytes[unit]
    everywhere = 1.0
    if room < np.inf:
        everywhere = room / (room + bytes_left) if room + bytes_left > 0.0 else 0.0
    inputs = 0.0
    for reading in range(decoder.first[task], decoder.first[task + 1]):
        inputs += board.mean_ms[decoder.tensor[reading]]
    nearest = np.inf
    for d in range(n_devices):
        if state.allowed[d]:
            begin = max(state.arrival[d], state.free[d])
            finish = begin + decoder.unit_ms[unit, d]
            state.trial[d] = finish_child(board, state, task, d, finish)
            nearest = min(nearest, state.trial[d])
    for d in range(n_devices):
        if not state.allowed[d]:
            continue
        begin = max(state.arrival[d], state.free[d])
        finish = begin + decoder.unit_ms[unit, d]
        other = second if d == chosen else best
        limit = decoder.limits_bytes[d]
        left = limit - state.used[d] - decoder.unit_bytes[unit]
        row = state.seen[d]
        row[0] = squash((state.goal[d] - best) / scale)
        row[1] = squash((other - state.goal[d]) / scale) if other < np.inf else 1.0
        row[2] = d == chosen
        row[3] = squash((begin - start) / scale)
        row[4] = squash((state.arrival[d] - arrival) / scale)
        row[5] = squash((begin - state.free[d]) / scale)
        row[6] = squash((state.free[d] - free) / scale)
        row[7] = squash((finish - end) / (board.work_ms[task] + scale))
        row[8] = squash((finish + board.tail_ms[task] - path) / scale)
        row[9] = squash((state.trial[d] - nearest) / scale)
        row[10] = d == critical
        row[11] = state.shared[d] / inputs if inputs > 0.0 else 0.0
        row[12] = d == last
        row[13] = state.free[d] > 0.0
        row[14], row[15] = 1.0, 1.0
        if limit < np.inf:
            row[14] = max(left, 0.0) / limit if limit > 0.0 else 0.0
            row[15] = max(left, 0.0) / (max(left, 0.0) + after) if left + after > 0.0 else 0.0
        row[16] = everywhere
        row[17] = task / len(decoder.unit)


@njit(cache=True, nogil=True)
def finish_child(board: Board, state: State, task: int, d: int, finish: float) -> float:
    """The earliest finish of the first task that reads from one which finishes on device ``d``."""
    decoder, child = board.decoder, board.child[task]
    if child == NOWHERE:
        return finish
    unit, tensor = decoder.unit[child], board.child_tensor[task]
    best = np.inf
    for there in range(len(state.free)):
        held = state.used[there] + decoder.unit_bytes[unit]
        if there == d:
            held += decoder.unit_bytes[decoder.unit[task]]
        if decoder.supported[unit, there] and held <= decoder.limits_bytes[there]:
            arrival = finish + decoder.transfer_ms[tensor, d, there]
            best = min(best, max(arrival, state.free[there]) + decoder.ms[child, there])
    return best if best < np.inf else finish + decoder.ms[child].max()
