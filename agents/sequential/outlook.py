"""What is seen of each move of a unit to another device: numbers without scale.

They are computed for all units and devices at once, from one pass over a schedule in each
direction, so that they cost as much as a few estimates and guide a hundred moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from agents.sequential.schedule import LIST, LOAD, QUEUED, SERIAL, Schedule, Space, estimate
from placement_gym.arrays import Float32Array, FloatArray, IntArray
from placement_gym.solvers.levels.levels import Level
from placement_gym.solvers.levels.refine import RefinementPrices, State, price_devices

FEATURES = (
    "longest path through the unit there, beside the last finish",
    "the same if the device were free",
    "longest path through the unit here",
    "whether it is on the longest path",
    "added times and transfers, beside the latency",
    "the same beside the mean time of a unit",
    "added time, beside the latency",
    "load here beside the largest",
    "load there with the unit beside the largest",
    "room left there after the unit, over the limit",
    "whether the unit fits there",
    "memory of the unit over the limit there",
    "memory of the unit over the limit here",
    "share of neighbours there",
    "share of neighbours here",
    "one over the number of devices",
    "temperature",
    "whether cost is added up",
    "whether the largest load counts",
    "what the network prefers there to here",
)
N_FEATURES = len(FEATURES)
WIDTH = 16
"""Hidden values of the scorer of moves."""
FINE = 30.0
"""Factor of differences beside the latency before they are squashed."""


class MoveScorer(NamedTuple):
    """Weights that say how promising a move is; see ``network.Network``.

    Attributes:
        weight: (N_FEATURES, WIDTH) float32.
        bias: (WIDTH,) float32.
        out: (WIDTH,) float32.
        used: Whether anything was learned.
    """

    weight: Float32Array
    bias: Float32Array
    out: Float32Array
    used: bool


def no_scorer() -> MoveScorer:
    """One that has learned nothing."""
    hidden = np.zeros(WIDTH, dtype=np.float32)
    return MoveScorer(np.zeros((N_FEATURES, WIDTH), dtype=np.float32), hidden, hidden, False)


class Outlook(NamedTuple):
    """Space for a pass in each direction.

    Attributes:
        tail: (n,) longest path after each operator.
        after: (n_devices,) the same after what runs on each device.
        head: (n_units, n_devices) when inputs are there.
        free: (n_units, n_devices) when the device is free for the unit.
        rest: (n_units, n_devices) longest path after the unit through its readers.
        next: (n_units, n_devices) longest path after the unit through what the device runs next.
        seen: (n_units, n_devices, N_FEATURES) float32.
    """

    tail: FloatArray
    after: FloatArray
    head: FloatArray
    free: FloatArray
    rest: FloatArray
    next: FloatArray
    seen: Float32Array


@njit(cache=True, nogil=True)
def make_outlook(n: int, n_units: int, n_devices: int) -> Outlook:
    """Space for ``n`` operators."""
    shape = (n_units, n_devices)
    return Outlook(
        np.zeros(n),
        np.zeros(n_devices),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros((n_units, n_devices, N_FEATURES), np.float32),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def look_around(schedule: Schedule, space: Space, outlook: Outlook, place: IntArray) -> None:
    """Fill heads and tails of (n_units,) devices whose times are in ``space``."""
    unit, ms, transfer_ms = schedule.unit, schedule.ms, schedule.transfer_ms
    n_devices, finish = ms.shape[1], space.finish
    free, after, tail = space.free, outlook.after, outlook.tail
    for d in range(n_devices):
        free[d] = after[d] = 0.0
    tail[:] = 0.0
    outlook.head[:] = 0.0
    outlook.rest[:] = 0.0
    for i in range(len(unit)):
        u, here = unit[i], place[unit[i]]
        for d in range(n_devices):
            outlook.free[u, d] = free[d]
        for r in range(schedule.first[i], schedule.first[i + 1]):
            m, t = schedule.maker[r], schedule.tensor[r]
            if unit[m] != u:
                for d in range(n_devices):
                    there = finish[m] + transfer_ms[t, place[unit[m]], d]
                    outlook.head[u, d] = max(outlook.head[u, d], there)
        free[here] = finish[i]
    for i in range(len(unit) - 1, -1, -1):
        u, here = unit[i], place[unit[i]]
        for d in range(n_devices):
            outlook.next[u, d] = after[d]
        tail[i] = max(tail[i], after[here])
        through = tail[i] + ms[i, here]
        after[here] = through
        for r in range(schedule.first[i], schedule.first[i + 1]):
            m, t = schedule.maker[r], schedule.tensor[r]
            tail[m] = max(tail[m], through + transfer_ms[t, place[unit[m]], here])
            if unit[m] != u:
                for d in range(n_devices):
                    rest = through + transfer_ms[t, d, here]
                    outlook.rest[unit[m], d] = max(outlook.rest[unit[m], d], rest)


@njit(cache=True, nogil=True, error_model="numpy")
def squash(value: float) -> float:
    """Map any number to (-1, 1)."""
    return value / (1.0 + abs(value))


@njit(cache=True, nogil=True, error_model="numpy")
def describe_moves(
    level: Level,
    schedule: Schedule,
    space: Space,
    outlook: Outlook,
    state: State,
    limits: FloatArray,
    preference: FloatArray,
    heat: float,
) -> None:
    """Fill ``outlook.seen`` for the state's placement.

    Args:
        level: The units.
        schedule: The model of their cost.
        space: Of the model.
        outlook: To be filled.
        state: The placement.
        limits: (n_devices,) bytes.
        preference: (n_units, n_devices) of a network.
        heat: Temperature, in log latency.
    """
    place, seen = state.place, outlook.seen
    n_units, n_devices = level.ms.shape
    now = estimate(schedule, space, place)
    timed = schedule.kind == LIST or schedule.kind == QUEUED
    if timed:
        look_around(schedule, space, outlook, place)
    load = space.free if schedule.kind == LOAD else state.load
    largest, mean_ms = max(load.max(), 1e-200), level.ms.sum() / level.ms.size
    free_prices = RefinementPrices(np.zeros(n_devices), 1.0, 0.0, 1.0)
    added, near = np.empty(n_devices), np.zeros(n_devices)
    for u in range(n_units):
        here, ms = place[u], level.ms[u]
        price_devices(level, state, u, free_prices, added)
        neighbours = count_neighbours(level, place, u, near)
        usual = outlook.head[u, here] + ms[here] + outlook.rest[u, here]
        usual = max(
            usual,
            max(outlook.head[u, here], outlook.free[u, here])
            + ms[here]
            + max(outlook.rest[u, here], outlook.next[u, here]),
        )
        for d in range(n_devices):
            row = seen[u, d]
            if d == here or not level.possible[u, d]:
                continue
            if timed:
                through = outlook.head[u, d] + ms[d] + outlook.rest[u, d]
                row[1] = squash(FINE * (through / now - 1.0))
                start = max(outlook.head[u, d], outlook.free[u, d])
                through = start + ms[d] + max(outlook.rest[u, d], outlook.next[u, d])
                row[0] = squash(FINE * (through / now - 1.0))
                row[2] = squash(FINE * (usual / now - 1.0))
                row[3] = 1.0 if usual >= now * (1.0 - 1e-9) else 0.0
            more = added[d] - added[here]
            row[4] = squash(FINE * more / now)
            row[5] = squash(more / mean_ms)
            row[6] = squash(FINE * (ms[d] - ms[here]) / now)
            row[7] = load[here] / largest
            row[8] = squash((load[d] + ms[d]) / largest)
            held, limited = level.held[u], limits[d] < np.inf
            left = state.room[d] - held
            row[9] = max(left / max(limits[d], 1.0), -1.0) if limited else 1.0
            row[10] = 1.0 if left >= 0.0 else 0.0
            row[11] = min(held / max(limits[d], 1.0), 1.0) if limited else 0.0
            row[12] = min(held / max(limits[here], 1.0), 1.0) if limits[here] < np.inf else 0.0
            row[13] = near[d] / neighbours
            row[14] = near[here] / neighbours
            row[15] = 1.0 / n_devices
            row[16] = 0.1 * np.log(heat)
            row[17] = 1.0 if schedule.kind == SERIAL else 0.0
            row[18] = 1.0 if schedule.kind == LOAD else 0.0
            row[19] = squash(preference[u, d] - preference[u, here])


@njit(cache=True, nogil=True, error_model="numpy")
def count_neighbours(level: Level, place: IntArray, u: int, near: FloatArray) -> float:
    """Fill in the number of neighbours on each device; returns their sum, at least 1."""
    near[:] = 0.0
    for i in range(level.first_incident[u], level.first_incident[u + 1]):
        t = level.incident[i]
        if level.source[t] != u:
            near[place[level.source[t]]] += 1.0
            continue
        for r in range(level.first_reader[t], level.first_reader[t + 1]):
            near[place[level.readers[r]]] += 1.0
    return max(near.sum(), 1.0)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def score(scorer: MoveScorer, row: Float32Array) -> float:
    """How promising a move is, in log odds; constant lengths make it ten times faster."""
    total = np.float32(0.0)
    for h in range(WIDTH):
        hidden = scorer.bias[h]
        for f in range(N_FEATURES):
            hidden += row[f] * scorer.weight[f, h]
        total += max(hidden, np.float32(0.0)) * scorer.out[h]
    return float(total)
