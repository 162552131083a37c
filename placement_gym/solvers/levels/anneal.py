"""Annealing of a placement under a model of its latency, by moves of clusters of all sizes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.arrays import BoolArray, IntArray
from placement_gym.solvers.levels.coarsen import Hierarchy
from placement_gym.solvers.levels.levels import Level
from placement_gym.solvers.levels.models import SERIAL, Operators, estimate_ms
from placement_gym.solvers.levels.refine import RefinementPrices, State, move, relieve

SHIFTS, RUNS = 0.5, 0.75
"""Share of moves that shift one cluster, and of those that shift one or a run; others swap two."""
TRIES = 8


class Groups(NamedTuple):
    """The clusters of all levels as groups of units, those of one level in topological order.

    Attributes:
        first_group: (n_levels + 1,) where each level's groups begin.
        first_member: (n_groups + 1,) where each group's units begin.
        members: (n_levels * n_units,) units.
    """

    first_group: IntArray
    first_member: IntArray
    members: IntArray

    @classmethod
    def of(cls, hierarchy: Hierarchy) -> Groups:
        labels = [hierarchy.of_units(level) for level in range(len(hierarchy.levels))]
        sizes = np.concatenate([np.bincount(label) for label in labels])
        return cls(
            first_group=np.cumsum([0, *(len(level.ms) for level in hierarchy.levels)]),
            first_member=np.concatenate([[0], np.cumsum(sizes)]),
            members=np.concatenate([np.argsort(label, kind="stable") for label in labels]),
        )


@njit(cache=True, nogil=True)
def anneal(
    level: Level,
    groups: Groups,
    operators: Operators,
    model: int,
    state: State,
    prices: RefinementPrices,
    steps: int,
    heat: float,
    seed: int,
) -> tuple[float, IntArray]:
    """Shift and swap clusters for some steps; the state is left at the last accepted placement.

    A serial latency is updated by what a move changes; other latencies are estimated anew.

    Args:
        level: The finest level.
        groups: Clusters of all levels.
        operators: What the model computes with.
        model: The model of the latency.
        state: A placement within limits; changed in place.
        prices: Decide which units leave a device that a move has overfilled.
        steps: Number of moves to try.
        heat: Temperature, in log latency.
        seed: Seed of all random choices.

    Returns:
        The lowest estimate that a move reached, in ms, and its placement.
    """
    np.random.seed(seed)
    place = state.place
    now = estimate_ms(operators, model, place)
    best_ms, best = np.inf, place.copy()
    old, moved = place.copy(), np.zeros(len(place), np.bool_)
    for _ in range(steps):
        moved[:] = False
        change(level, groups, state, moved)
        fits = state.room.min() >= 0.0 or relieve(level, state, prices, moved)
        ms = np.inf
        if fits and (place != old).any():
            ms = state.total_ms[0] if model == SERIAL else estimate_ms(operators, model, place)
            if ms < best_ms:
                best_ms = ms
                best[:] = place
        if ms <= now or np.random.random() < np.exp((np.log(now) - np.log(ms)) / heat):
            now = ms
            old[:] = place
        else:
            for u in np.flatnonzero(place != old):
                move(level, state, u, old[u])
    return best_ms, best


@njit(cache=True, nogil=True)
def change(level: Level, groups: Groups, state: State, moved: BoolArray) -> None:
    """Shift a random cluster or run of clusters to another device, or swap two clusters."""
    at = np.random.randint(len(groups.first_group) - 1)
    begin, end = groups.first_group[at], groups.first_group[at + 1]
    group, kind = np.random.randint(begin, end), np.random.random()
    here = state.place[groups.members[groups.first_member[group]]]
    if kind < RUNS:
        length = 1
        if kind >= SHIFTS:
            length = int(np.ceil((end - begin) ** np.random.random()))
        there = choose_device(level, groups, state, group, here)
        for other in range(group, min(group + length, end)):
            put(level, groups, state, moved, other, there)
        return
    for _ in range(TRIES):
        other = np.random.randint(begin, end)
        there = state.place[groups.members[groups.first_member[other]]]
        if there != here:
            put(level, groups, state, moved, group, there)
            put(level, groups, state, moved, other, here)
            return


@njit(cache=True, nogil=True)
def choose_device(level: Level, groups: Groups, state: State, group: int, here: int) -> int:
    """Another device: that of a random neighbour of a random member, or a random one."""
    low, high = groups.first_member[group], groups.first_member[group + 1]
    u, d = groups.members[np.random.randint(low, high)], level.ms.shape[1]
    begin, end = level.first_incident[u], level.first_incident[u + 1]
    if end > begin and np.random.random() < 0.5:
        t = level.incident[np.random.randint(begin, end)]
        if level.source[t] == u:
            v = level.readers[np.random.randint(level.first_reader[t], level.first_reader[t + 1])]
        else:
            v = level.source[t]
        if state.place[v] != here:
            return int(state.place[v])
    return int((here + 1 + np.random.randint(max(d - 1, 1))) % d)


@njit(cache=True, nogil=True)
def put(
    level: Level, groups: Groups, state: State, moved: BoolArray, group: int, device: int
) -> None:
    """Move a group's units to a device that can run them, and mark them."""
    for i in range(groups.first_member[group], groups.first_member[group + 1]):
        u = groups.members[i]
        if state.place[u] != device and level.possible[u, device]:
            move(level, state, u, device)
            moved[u] = True
