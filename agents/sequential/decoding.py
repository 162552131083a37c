"""The sequential decoder, compiled and in batches: list scheduling with learned preferences.

Kernels that make no arrays are compiled without numba's counting of references (``_nrt=False``),
which would take twice as long as what they compute.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from agents.sequential.board import ADDED, FINISH, LOAD, Board
from agents.sequential.steps import N_FEATURES, State, clear, make_state, see
from placement_gym.arrays import BoolArray, Float32Array, FloatArray, IntArray, UInt32
from placement_gym.solvers.decoder import NOWHERE
from placement_gym.solvers.list_sampling import Noise

WIDTH = 16
"""Hidden values of the scorer."""
TIE = 1e-3
"""Weight of added load beside the largest load, so that it decides between equal ones."""


class Scorer(NamedTuple):
    """What the kernel reads of a network.

    Attributes:
        bias: (n_units, n_devices) float32, preferences of the graph encoder alone.
        table: (n_units, n_devices, WIDTH) float32, hidden values from the graph encoder.
        weight: (N_FEATURES, WIDTH) float32, of what a step sees.
        out: (WIDTH,) float32, from hidden values to preferences.
        direct: (N_FEATURES,) float32, from what a step sees to preferences.
        sharpness: Factor of the greedy score.
    """

    bias: Float32Array
    table: Float32Array
    weight: Float32Array
    out: Float32Array
    direct: Float32Array
    sharpness: float


class Steps(NamedTuple):
    """What was seen at each step of each placement; rows of units.

    Attributes:
        seen: (k, n_units, n_devices, N_FEATURES) float32.
        gap: (k, n_units, n_devices) float32, greedy score below that of the best device.
        allowed: (k, n_units, n_devices) bool.
    """

    seen: Float32Array
    gap: Float32Array
    allowed: BoolArray


def sample(board: Board, scorer: Scorer, noise: Noise) -> IntArray:
    """(k, n_units) the placements that noise decodes to."""
    n_units, n_devices = board.decoder.unit_ms.shape
    forced = np.empty((0, n_units), dtype=np.int64)
    return decode(board, scorer, *noise, forced, make_steps(0, n_units, n_devices))[0]


def replay(board: Board, scorer: Scorer, placements: IntArray) -> Steps:
    """What is seen on the way to each of (k, n_units) placements."""
    n_units, n_devices = board.decoder.unit_ms.shape
    steps = make_steps(len(placements), n_units, n_devices)
    follow(board, scorer, placements, steps)
    return steps


def estimate(board: Board, placements: IntArray) -> FloatArray:
    """(k,) what (k, n_units) placements cost in the decoder's model, in ms, limits ignored."""
    n_units, n_devices = board.decoder.unit_ms.shape
    return follow(board, make_scorer(n_units, n_devices), placements, make_steps(0, 0, 0))


def rate_plans(board: Board) -> Board:
    """The board with the plan that costs least in the decoder's model."""
    return board.rate(estimate(board, board.plans))


def follow(board: Board, scorer: Scorer, placements: IntArray, steps: Steps) -> FloatArray:
    """Decode (k, n_units) given placements; returns what they cost, as ``estimate``."""
    k, (n_tasks, n_devices) = len(placements), board.decoder.ms.shape
    run = np.zeros((k, n_tasks), dtype=np.uint32)
    preference, price = np.zeros((1, n_devices)), np.zeros(k)
    forced = np.ascontiguousarray(placements, dtype=np.int64)
    return decode(board, scorer, run, preference, price, forced, steps)[1]


def make_scorer(n_units: int, n_devices: int) -> Scorer:
    """A scorer that prefers nothing."""
    return Scorer(
        np.zeros((n_units, n_devices), dtype=np.float32),
        np.zeros((n_units, n_devices, WIDTH), dtype=np.float32),
        np.zeros((N_FEATURES, WIDTH), dtype=np.float32),
        np.zeros(WIDTH, dtype=np.float32),
        np.zeros(N_FEATURES, dtype=np.float32),
        1.0,
    )


def make_steps(k: int, n_units: int, n_devices: int) -> Steps:
    """Space for the steps of ``k`` placements."""
    shape = (k, n_units, n_devices)
    return Steps(
        np.zeros((*shape, N_FEATURES), dtype=np.float32),
        np.zeros(shape, dtype=np.float32),
        np.zeros(shape, dtype=np.bool_),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def decode(
    board: Board,
    scorer: Scorer,
    run: UInt32,
    preference: FloatArray,
    price: FloatArray,
    forced: IntArray,
    steps: Steps,
) -> tuple[IntArray, FloatArray]:
    """Place ``k`` samples; as ``solvers.decoder.decode`` if nothing is learned.

    Args:
        board: The problem.
        scorer: The network.
        run: See ``solvers.decoder.decode``.
        preference: Likewise.
        price: Likewise.
        forced: (k, n_units) devices to follow, or (0, n_units).
        steps: Filled with what is seen, unless it is for 0 placements.

    Returns:
        (k, n_units) devices, and (k,) what they cost in ms: the last finish, the added cost, or
        the largest load, as the board's goal says.
    """
    decoder = board.decoder
    k, n_tasks = run.shape
    n_units, n_devices = decoder.unit_ms.shape
    placements, costs_ms = np.empty((k, n_units), np.int64), np.empty(k)
    state = make_state(board)
    recorded = len(steps.gap) > 0
    looks = recorded or np.any(scorer.out != 0.0) or np.any(scorer.direct != 0.0)
    for sample in range(k):
        clear(board, state)
        last, end, path = NOWHERE, 0.0, 0.0
        for task in range(n_tasks):
            unit = decoder.unit[task]
            critical = collect_inputs(board, state, task)
            if state.device[unit] == NOWHERE:
                find_allowed(board, state, unit)
                compute_goals(board, state, task)
                if looks:
                    see(board, state, task, critical, last, end, path)
                chosen, best = NOWHERE, -np.inf
                row = run[sample, task]
                for d in range(n_devices):
                    if not state.allowed[d]:
                        continue
                    score = preference[row, d] - price[sample] * decoder.fill[unit, d]
                    score -= scorer.sharpness * state.goal[d] / decoder.scale_ms
                    score += scorer.bias[unit, d]
                    if looks:
                        score += prefer(scorer, unit, d, state.seen)
                    if chosen == NOWHERE or score > best:
                        chosen, best = d, score
                if recorded:
                    record(state, steps, sample, unit, decoder.scale_ms)
                if len(forced):
                    chosen = forced[sample, unit]
                state.device[unit] = chosen
                state.used[chosen] += decoder.unit_bytes[unit]
                state.reserved[board.plan[unit]] -= decoder.unit_bytes[unit]
                last = chosen
            finish = place(board, state, task)
            end, path = max(end, finish), max(path, finish + board.tail_ms[task])
        placements[sample] = state.device
        costs_ms[sample] = end
        if board.goal == ADDED:
            costs_ms[sample] = state.added[0]
        elif board.goal == LOAD:
            costs_ms[sample] = state.load.max()
    return placements, costs_ms


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def collect_inputs(board: Board, state: State, task: int) -> int:
    """Compute when the inputs of a task are on each device; return where the latest one is."""
    decoder = board.decoder
    n_devices = len(state.free)
    for d in range(n_devices):
        state.arrival[d] = state.shared[d] = 0.0
    critical, latest = NOWHERE, -1.0
    for reading in range(decoder.first[task], decoder.first[task + 1]):
        maker, tensor = decoder.maker[reading], decoder.tensor[reading]
        there, finish = state.device[decoder.unit[maker]], state.finish[maker]
        if finish + board.mean_ms[tensor] > latest:
            critical, latest = there, finish + board.mean_ms[tensor]
        for d in range(n_devices):
            arrival = finish + decoder.transfer_ms[tensor, there, d]
            state.arrival[d] = max(state.arrival[d], arrival)
            if d == there or state.here[tensor, d]:
                state.shared[d] += board.mean_ms[tensor]
    return critical


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def find_allowed(board: Board, state: State, unit: int) -> None:
    """Allow devices that support the unit and have room; if there are none, the roomiest."""
    decoder = board.decoder
    roomiest, most, any_room = NOWHERE, -np.inf, False
    for d in range(len(state.free)):
        state.allowed[d] = False
        if not decoder.supported[unit, d]:
            continue
        room = decoder.limits_bytes[d] - state.used[d]
        if roomiest == NOWHERE or room > most:
            roomiest, most = d, room
        if state.used[d] + decoder.unit_bytes[unit] <= decoder.limits_bytes[d]:
            state.allowed[d] = any_room = True
    if not any_room:
        state.allowed[roomiest] = True


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def compute_goals(board: Board, state: State, task: int) -> None:
    """Compute what the greedy choice minimises, for each allowed device."""
    decoder = board.decoder
    unit, n_devices = decoder.unit[task], len(state.free)
    for d in range(n_devices):
        if not state.allowed[d]:
            continue
        if board.goal == FINISH:
            begin = max(state.arrival[d], state.free[d])
            state.goal[d] = begin + decoder.unit_ms[unit, d]
        elif board.goal == ADDED:
            state.goal[d] = decoder.unit_ms[unit, d]
            for reading in range(decoder.first[task], decoder.first[task + 1]):
                maker, tensor = decoder.maker[reading], decoder.tensor[reading]
                there = state.device[decoder.unit[maker]]
                if d != there and not state.here[tensor, d]:
                    state.goal[d] += decoder.transfer_ms[tensor, there, d]
        else:
            state.goal[d] = compute_load(board, state, task, d)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def compute_load(board: Board, state: State, task: int, d: int) -> float:
    """The largest load with a task on device ``d``, and a little of what it adds."""
    decoder, trial = board.decoder, state.trial
    for other in range(len(trial)):
        trial[other] = state.load[other]
    trial[d] += decoder.unit_ms[decoder.unit[task], d]
    for reading in range(decoder.first[task], decoder.first[task + 1]):
        maker, tensor = decoder.maker[reading], decoder.tensor[reading]
        there = state.device[decoder.unit[maker]]
        if d != there and not state.here[tensor, d]:
            trial[d] += board.boundary_ms[tensor, d]
            if not state.left[tensor]:
                trial[there] += board.boundary_ms[tensor, there]
    largest, added = 0.0, 0.0
    for other in range(len(trial)):
        largest = max(largest, trial[other])
        added += trial[other] - state.load[other]
    return largest + TIE * added


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True, _nrt=False)
def prefer(scorer: Scorer, unit: int, d: int, seen: Float32Array) -> float:
    """The learned preference of a unit for a device; constant lengths make it ten times faster."""
    total = np.float32(0.0)
    for h in range(WIDTH):
        hidden = scorer.table[unit, d, h]
        for f in range(N_FEATURES):
            hidden += seen[d, f] * scorer.weight[f, h]
        total += max(hidden, np.float32(0.0)) * scorer.out[h]
    for f in range(N_FEATURES):
        total += seen[d, f] * scorer.direct[f]
    return float(total)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def record(state: State, steps: Steps, sample: int, unit: int, scale_ms: float) -> None:
    """Keep what was seen."""
    best = np.inf
    for d in range(len(state.free)):
        if state.allowed[d]:
            best = min(best, state.goal[d])
    for d in range(len(state.free)):
        steps.allowed[sample, unit, d] = state.allowed[d]
        if state.allowed[d]:
            for f in range(N_FEATURES):
                steps.seen[sample, unit, d, f] = state.seen[d, f]
            steps.gap[sample, unit, d] = (best - state.goal[d]) / scale_ms


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def place(board: Board, state: State, task: int) -> float:
    """Run a task on the device of its unit; returns when it finishes."""
    decoder = board.decoder
    here = state.device[decoder.unit[task]]
    for reading in range(decoder.first[task], decoder.first[task + 1]):
        maker, tensor = decoder.maker[reading], decoder.tensor[reading]
        there = state.device[decoder.unit[maker]]
        if here != there and not state.here[tensor, here]:
            state.here[tensor, here] = True
            state.load[here] += board.boundary_ms[tensor, here]
            state.added[0] += decoder.transfer_ms[tensor, there, here]
            if not state.left[tensor]:
                state.left[tensor] = True
                state.load[there] += board.boundary_ms[tensor, there]
    state.load[here] += decoder.ms[task, here]
    state.added[0] += decoder.ms[task, here]
    finish = max(state.arrival[here], state.free[here]) + decoder.ms[task, here]
    state.finish[task] = state.free[here] = finish
    return finish
