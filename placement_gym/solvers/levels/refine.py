"""Refinement of a level's placement by priced serial costs.

The priced cost of a placement is the sum of all times, plus all transfers times a factor, plus the
bytes that devices hold times their prices. A power above zero charges a time in proportion to that
power of its device's load, so that loads are balanced, as overlapping schedules need. With a power
of zero and a factor of one, this is the serial latency. Prices make units leave a full device,
least regret per byte first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.solvers.levels.levels import Level

TINY = 1e-12
"""A gain below this share of a cost counts as rounding."""
TRIES = 8
"""Number of partners that are tried for an exchange with a full device."""


class State(NamedTuple):
    """A placement of a level's clusters, changed in place.

    Attributes:
        place: (n,) device of each cluster.
        readers_on: (n_tensors, n_devices) readers of each tensor on each device.
        room: (n_devices,) bytes left, negative where too many are held.
        load: (n_devices,) sum of times, ms.
        total_ms: (1,) the serial latency, where each tensor is sent once per destination.
    """

    place: IntArray
    readers_on: IntArray
    room: FloatArray
    load: FloatArray
    total_ms: FloatArray


class RefinementPrices(NamedTuple):
    """What a placement is charged for.

    Attributes:
        per_byte: (n_devices,) ms for each byte held.
        transfer: Factor of transfers.
        power: A time is multiplied by this power of its device's load over ``usual_ms``.
        usual_ms: Load at which a time is charged unchanged.
    """

    per_byte: FloatArray
    transfer: float
    power: float
    usual_ms: float


@njit(cache=True, nogil=True)
def make_state(level: Level, place: IntArray, limits_bytes: FloatArray) -> State:
    """Count readers and room; the placement itself is not copied."""
    n_tensors, d = len(level.source), level.ms.shape[1]
    count, room, load = np.zeros((n_tensors, d), np.int64), limits_bytes.copy(), np.zeros(d)
    moving_ms = 0.0
    for t in range(n_tensors):
        source = place[level.source[t]]
        for r in range(level.first_reader[t], level.first_reader[t + 1]):
            there = place[level.readers[r]]
            if count[t, there] == 0:
                moving_ms += level.transfer_ms[t, source, there]
            count[t, there] += 1
    for u in range(len(place)):
        room[place[u]] -= level.held[u]
        load[place[u]] += level.ms[u, place[u]]
    return State(place, count, room, load, np.array([load.sum() + moving_ms]))


@njit(cache=True, nogil=True)
def price_devices(
    level: Level, state: State, u: int, prices: RefinementPrices, cost: FloatArray
) -> None:
    """Fill in what a cluster costs on each device while all others stay; infinite if impossible."""
    place, count, transfer_ms = state.place, state.readers_on, level.transfer_ms
    d, here = len(cost), place[u]
    cost[:] = 0.0
    for i in range(level.first_incident[u], level.first_incident[u + 1]):
        t = level.incident[i]
        maker = level.source[t]
        if maker == u:
            for there in range(d):
                if count[t, there] > 0:
                    for device in range(d):
                        cost[device] += transfer_ms[t, device, there]
        else:
            source = place[maker]
            for device in range(d):
                if count[t, device] == (1 if device == here else 0):
                    cost[device] += transfer_ms[t, source, device]
    for device in range(d):
        if not level.possible[u, device]:
            cost[device] = np.inf
            continue
        ms = level.ms[u, device]
        cost[device] *= prices.transfer
        cost[device] += prices.per_byte[device] * level.held[u]
        if prices.power > 0.0:
            load = state.load[device] + (-0.5 if device == here else 0.5) * ms
            ms *= (max(load, 0.0) / prices.usual_ms) ** prices.power
        cost[device] += ms


@njit(cache=True, nogil=True)
def move(level: Level, state: State, u: int, device: int) -> None:
    """Move a cluster to a device, and update the state."""
    here = state.place[u]
    state.place[u] = device
    added_ms = level.ms[u, device] - level.ms[u, here]
    state.room[here] += level.held[u]
    state.room[device] -= level.held[u]
    state.load[here] -= level.ms[u, here]
    state.load[device] += level.ms[u, device]
    for i in range(level.first_incident[u], level.first_incident[u + 1]):
        t = level.incident[i]
        readers_on, transfer_ms = state.readers_on[t], level.transfer_ms[t]
        if level.source[t] == u:
            for there in range(len(readers_on)):
                if readers_on[there] > 0:
                    added_ms += transfer_ms[device, there] - transfer_ms[here, there]
        else:
            source = state.place[level.source[t]]
            readers_on[here] -= 1
            if readers_on[here] == 0:
                added_ms -= transfer_ms[source, here]
            if readers_on[device] == 0:
                added_ms += transfer_ms[source, device]
            readers_on[device] += 1
    state.total_ms[0] += added_ms


@njit(cache=True, nogil=True)
def descend(
    level: Level, state: State, prices: RefinementPrices, order: IntArray, hard: bool
) -> int:
    """Move each cluster to its cheapest device, in order; returns the number of moves.

    Args:
        level: The clusters.
        state: Their placement.
        prices: What it is charged for.
        order: Clusters in the order in which they are visited.
        hard: Whether a device must have room for what moves to it.
    """
    cost = np.empty(level.ms.shape[1])
    moves = 0
    for u in order:
        price_devices(level, state, u, prices, cost)
        here = state.place[u]
        best = here
        for device in range(len(cost)):
            fits = not hard or level.held[u] <= state.room[device]
            if fits and cost[device] < cost[best] * (1.0 - TINY):
                best = device
        if best != here:
            move(level, state, u, best)
            moves += 1
    return moves


@njit(cache=True, nogil=True)
def relieve(level: Level, state: State, prices: RefinementPrices, kept: BoolArray) -> bool:
    """Move clusters off overfull devices where there is room: least regret per byte first.

    Args:
        level: The clusters.
        state: Their placement.
        prices: What it is charged for.
        kept: (n,) bool, clusters that must stay.

    Returns:
        Whether all limits hold now.
    """
    d = level.ms.shape[1]
    cost = np.empty(d)
    for device in np.argsort(state.room):
        if state.room[device] >= 0.0:
            break
        members = np.flatnonzero((state.place == device) & (level.held > 0.0) & ~kept)
        regret = np.empty(len(members))
        for i in range(len(members)):
            price_devices(level, state, members[i], prices, cost)
            here = cost[device]
            cost[device] = np.inf
            regret[i] = (cost.min() - here) / level.held[members[i]]
        for i in np.argsort(regret):
            if state.room[device] >= 0.0:
                break
            leave_for_room(level, state, prices, members[i], cost)
    return bool(state.room.min() >= 0.0)


@njit(cache=True, nogil=True)
def leave_for_room(
    level: Level, state: State, prices: RefinementPrices, u: int, cost: FloatArray
) -> None:
    """Move a cluster to its cheapest other device that has room, if any."""
    price_devices(level, state, u, prices, cost)
    best = -1
    for device in range(len(cost)):
        if device == state.place[u] or level.held[u] > state.room[device]:
            continue
        if cost[device] < np.inf and (best < 0 or cost[device] < cost[best]):
            best = device
    if best >= 0:
        move(level, state, u, best)


@njit(cache=True, nogil=True)
def exchange(
    level: Level, state: State, prices: RefinementPrices, order: IntArray, draws: FloatArray
) -> int:
    """Swap clusters that a full device cannot take with some of its own; returns their number.

    Args:
        level: The clusters.
        state: Their placement, within limits.
        prices: What it is charged for.
        order: Clusters in the order in which they are visited.
        draws: (n_order, ``TRIES``) uniform numbers that choose partners.
    """
    d = level.ms.shape[1]
    cost, back = np.empty(d), np.empty(d)
    by_device = np.argsort(state.place, kind="mergesort")
    begin = np.searchsorted(state.place[by_device], np.arange(d + 1))
    swaps = 0
    for i in range(len(order)):
        u = order[i]
        here = state.place[u]
        price_devices(level, state, u, prices, cost)
        wanted = cost.argmin()
        gain = cost[here] - cost[wanted]
        members = begin[wanted + 1] - begin[wanted]
        if gain <= TINY * cost[wanted] or members == 0 or level.held[u] <= state.room[wanted]:
            continue
        for k in range(TRIES):
            v = by_device[begin[wanted] + int(draws[i, k] * members)]
            if state.place[v] != wanted or not level.possible[v, here]:
                continue
            if level.held[u] - level.held[v] > state.room[wanted]:
                continue
            if level.held[v] - level.held[u] > state.room[here]:
                continue
            move(level, state, u, wanted)
            price_devices(level, state, v, prices, back)
            if back[here] - back[wanted] < gain - TINY * cost[wanted]:
                move(level, state, v, here)
                swaps += 1
                break
            move(level, state, u, here)
    return swaps
