"""Annealing of a placement under the decoder's model, by moves that something learned proposes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from agents.sequential.outlook import (
    N_FEATURES,
    MoveScorer,
    Outlook,
    describe_moves,
    make_outlook,
    score,
)
from agents.sequential.schedule import SERIAL, Schedule, estimate, make_space
from placement_gym.arrays import BoolArray, Float32Array, FloatArray, IntArray
from placement_gym.solvers.levels.anneal import RUNS, SHIFTS, TRIES, Groups, change, put
from placement_gym.solvers.levels.levels import Level
from placement_gym.solvers.levels.refine import RefinementPrices, State, move, relieve

GUIDED = 0.7
"""Share of moves that were learned to pay; others are drawn as the multilevel placer draws them."""
RENEWAL = 100
"""Moves after which they are described anew."""


class Log(NamedTuple):
    """Moves that were tried, for training; of length 0 to keep none.

    Attributes:
        seen: (k, N_FEATURES) float32.
        ratio: (k,) log of latency after over latency before; infinite if it did not fit.
        filled: (1,) number of rows filled.
    """

    seen: Float32Array
    ratio: FloatArray
    filled: IntArray


def make_log(k: int) -> Log:
    """Space for ``k`` moves."""
    return Log(np.zeros((k, N_FEATURES), np.float32), np.zeros(k), np.zeros(1, np.int64))


@njit(cache=True, nogil=True)
def anneal(
    level: Level,
    groups: Groups,
    labels: IntArray,
    schedule: Schedule,
    limits: FloatArray,
    state: State,
    preference: FloatArray,
    scorer: MoveScorer,
    steps: int,
    heat: float,
    seed: int,
    log: Log,
) -> tuple[float, IntArray]:
    """Shift and swap clusters for some steps; the state is left at the last accepted placement.

    Args:
        level: The units.
        groups: Clusters of all levels.
        labels: (n_levels, n_units) group of each unit.
        schedule: The model.
        limits: (n_devices,) bytes.
        state: A placement within limits; changed in place.
        preference: (n_units, n_devices) of a network.
        scorer: Proposes moves.
        steps: Number of moves to try.
        heat: Temperature, in log latency.
        seed: Seed of all random choices.
        log: Filled with guided moves.

    Returns:
        The lowest estimate that a move reached, in ms, and its placement.
    """
    np.random.seed(seed)
    place, n_devices = state.place, len(limits)
    prices = RefinementPrices(np.zeros(n_devices), 1.0, 0.0, 1.0)
    space = make_space(schedule)
    outlook = make_outlook(len(schedule.unit), len(place), n_devices)
    total = np.zeros(len(place) * n_devices)
    now = estimate(schedule, space, place)
    best_ms, best = np.inf, place.copy()
    old, moved = place.copy(), np.zeros(len(place), np.bool_)
    logs = len(log.ratio) > 0
    stale = RENEWAL
    for _ in range(steps):
        moved[:] = False
        cell = -1
        if logs or (scorer.used and np.random.random() < GUIDED):
            if stale >= (1 if logs else RENEWAL):
                describe_moves(level, schedule, space, outlook, state, limits, preference, heat)
                weigh(level, outlook, place, scorer, total)
                stale = 0
            cell = draw(total)
            u, there = cell // n_devices, cell % n_devices
            if place[u] == there:
                cell = -1
            else:
                change_at(groups, labels, level, state, moved, u, there)
        stale += 1
        if cell < 0:
            change(level, groups, state, moved)
        fits = state.room.min() >= 0.0 or relieve(level, state, prices, moved)
        ms = np.inf
        if fits and (place != old).any():
            serial = schedule.kind == SERIAL
            ms = state.total_ms[0] if serial else estimate(schedule, space, place)
            if ms < best_ms:
                best_ms = ms
                best[:] = place
        if logs and cell >= 0 and log.filled[0] < len(log.ratio):
            u, there = cell // n_devices, cell % n_devices
            log.seen[log.filled[0]] = outlook.seen[u, there]
            log.ratio[log.filled[0]] = np.log(ms / now)
            log.filled[0] += 1
        if ms <= now or np.random.random() < np.exp((np.log(now) - np.log(ms)) / heat):
            now = ms
            old[:] = place
        else:
            for u in np.flatnonzero(place != old):
                move(level, state, u, old[u])
    return best_ms, best


@njit(cache=True, nogil=True)
def weigh(
    level: Level, outlook: Outlook, place: IntArray, scorer: MoveScorer, total: FloatArray
) -> None:
    """Fill in the cumulative odds of (n_units x n_devices) moves."""
    n_units, n_devices = level.ms.shape
    at, running = 0, 0.0
    for u in range(n_units):
        for d in range(n_devices):
            if d != place[u] and level.possible[u, d]:
                running += np.exp(score(scorer, outlook.seen[u, d])) if scorer.used else 1.0
            total[at] = running
            at += 1


@njit(cache=True, nogil=True)
def draw(total: FloatArray) -> int:
    """A number, likely by cumulative odds."""
    found = np.searchsorted(total, np.random.random() * total[-1], side="right")
    return min(found, len(total) - 1)


@njit(cache=True, nogil=True)
def change_at(
    groups: Groups,
    labels: IntArray,
    level: Level,
    state: State,
    moved: BoolArray,
    u: int,
    there: int,
) -> None:
    """Shift a unit's cluster of a random level, or a run from it on; or swap it with another."""
    at = np.random.randint(len(labels))
    begin, end = groups.first_group[at], groups.first_group[at + 1]
    group, kind, here = labels[at, u], np.random.random(), state.place[u]
    if kind < RUNS:
        length = 1
        if kind >= SHIFTS:
            length = int(np.ceil((end - begin) ** np.random.random()))
        for other in range(group, min(group + length, end)):
            put(level, groups, state, moved, other, there)
        return
    put(level, groups, state, moved, group, there)
    for _ in range(TRIES):
        other = np.random.randint(begin, end)
        if other == group:
            continue
        if state.place[groups.members[groups.first_member[other]]] == there:
            put(level, groups, state, moved, other, here)
            return
