"""List schedules with weights: one unit after another goes to the device of the smallest score."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt8, UInt64, inlined_part, kernel
from placement_gym.solvers.list_policy.list_problem import LOAD, OVERLAP, SERIAL, ListProblem

NAMES = ("price", "ms", "arriving", "stick", "scarce", "strength", "lasting", "host", "load")
"""Columns of the weights, see ``schedule_lists``."""
PRICE, MS, ARRIVING, STICK, SCARCE, STRENGTH, LASTING, HOST, WAITING = range(len(NAMES))


GAMMA, FIRST_FACTOR, SECOND_FACTOR = map(
    np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
FAR, NEAR, LAST, LOW_BITS = map(np.uint64, (30, 27, 31, 11))
"""Constants of SplitMix64."""
NOTHING = np.empty(0, np.int64)


@inlined_part
def draw_uniform(state: int) -> float:
    """A number from 0 to 1 of a state that grows by ``GAMMA``: SplitMix64 (Steele et al. 2014)."""
    mixed = (state ^ (state >> FAR)) * FIRST_FACTOR
    mixed = (mixed ^ (mixed >> NEAR)) * SECOND_FACTOR
    return float((mixed ^ (mixed >> LAST)) >> LOW_BITS) * 2.0**-53


def schedule_lists(
    problems: Sequence[ListProblem],
    weights: FloatArray,
    seeds: UInt64,
    places: UInt8,
    costs_ms: FloatArray,
) -> None:
    """Make a list schedule of a problem for each row of weights.

    Args:
        problems: (k,) the problem of each row; consecutive rows of one take less time.
        weights: (k, 9), columns ``NAMES``: price in ms per byte; stick, scarce, strength and host
            in ms.
        seeds: (k,) of the tastes of each schedule.
        places: (k, most units) gets devices; those of fewer units are the first ones of a row.
        costs_ms: (k,) gets times, infinite where limits are exceeded. They are the simulator's
            where ``is_exact``; else transfers wait for those of operators scheduled before.
    """
    begin = 0
    for _, rows in groupby(problems, key=id):
        same = list(rows)
        now = slice(begin, begin + len(same))
        schedule_problem(same[0], weights[now], seeds[now], NOTHING, places[now], costs_ms[now])
        begin = now.stop


@kernel
def schedule_problem(
    problem: ListProblem,
    weights: FloatArray,
    seeds: UInt64,
    given: IntArray,
    places: UInt8,
    costs_ms: FloatArray,
) -> None:
    """Make the list schedules of one problem; see ``schedule_lists``.

    Units in ``given``, the first ones of its order, have their devices in ``places`` already.

    A unit is placed when the first of its operators has its turn. The score of a device is when the
    operator would be ready there, or what the schedule adds up instead, and the unit's time; and::

          ms x its time  +  arriving x transfers of its inputs  +  taste of the device
        + stick, if the latest input is elsewhere  +  host, if that is the device
        + price x its bytes  +  scarce x its bytes / free bytes, if the device has a limit
        + load x (when the device is free - when the first one is)

    Tastes are uniform up to ``strength``, and drawn again before a unit with probability
    ``lasting``. A unit that no device has room for goes where most is left.
    """
    kind, unit, ms, unit_ms = problem.kind, problem.unit, problem.ms, problem.unit_ms
    first, tensor, maker = problem.first, problem.tensor, problem.maker
    transfer_ms, boundary_ms = problem.transfer_ms, problem.boundary_ms
    send, receive, each_reader = problem.send, problem.receive, problem.each_reader
    first_op, ops, supported = problem.first_op, problem.ops, problem.supported
    size, member, limit = problem.size, problem.member, problem.limit
    (n, n_devices), n_units, n_limits = ms.shape, len(size), len(limit)
    place, finish = np.empty(n_units, np.int64), np.empty(n)
    free, taste, left = np.empty(n_devices), np.empty(n_devices), np.empty(n_limits)
    ready, arriving = np.empty(n_devices), np.empty(n_devices)
    channel_free = np.empty(problem.n_channels)
    # the last schedule in which each tensor moved to each device, and when it arrived there
    moved = np.full((len(transfer_ms), n_devices), -1, np.int64)
    arrival = np.empty((len(transfer_ms), n_devices))

    for k in range(len(weights)):
        w, state = weights[k], seeds[k]
        for d in range(n_devices):
            state += GAMMA
            free[d], taste[d] = 0.0, w[STRENGTH] * draw_uniform(state)
        for g in range(n_limits):
            left[g] = limit[g]
        channel_free[:] = 0.0
        place[:] = -1
        total, fits_all = 0.0, True
        for u in given:
            place[u] = places[k, u]
            for g in range(n_limits):
                if member[g, place[u]]:
                    left[g] -= size[u]
                    fits_all = fits_all and left[g] >= 0.0

        for i in problem.sequence:
            u = unit[i]
            if place[u] < 0:
                # the unit chooses, perhaps by other tastes than the last one
                state += GAMMA
                if draw_uniform(state) < w[LASTING]:
                    for d in range(n_devices):
                        state += GAMMA
                        taste[d] = w[STRENGTH] * draw_uniform(state)
                # inputs whose makers have a device, on every device; those of the first operator
                # have run
                for d in range(n_devices):
                    ready[d], arriving[d] = free[d], 0.0
                latest, origin = -1.0, -1
                for at in range(first_op[u], first_op[u + 1]):
                    for r in range(first[ops[at]], first[ops[at] + 1]):
                        m, t = maker[r], tensor[r]
                        here = place[unit[m]]
                        if here < 0:
                            continue
                        runs = at == first_op[u]
                        if runs and finish[m] >= latest:
                            latest, origin = finish[m], here
                        for d in range(n_devices):
                            known = not each_reader and moved[t, d] == k
                            cost, there = 0.0, finish[m]
                            if d != here and kind == LOAD:
                                cost = 0.0 if known else boundary_ms[t, d]
                                cost += 0.0 if moved[t, here] == k else boundary_ms[t, here]
                            elif d != here:
                                cost = 0.0 if known else transfer_ms[t, here, d]
                                if known:
                                    there = arrival[t, d]
                                elif send[here, d] >= 0:
                                    there = max(there, channel_free[send[here, d]])
                                    if receive[here, d] >= 0:
                                        there = max(there, channel_free[receive[here, d]])
                                there += cost
                            arriving[d] += cost
                            if runs:
                                ready[d] = max(ready[d], there)

                # the smallest score wins, or most room if the unit fits nowhere
                low = free[0]
                for d in range(1, n_devices):
                    low = min(low, free[d])
                chosen, roomiest, least, most = -1, -1, np.inf, -np.inf
                for d in range(n_devices):
                    if not supported[u, d]:
                        continue
                    score, room = taste[d], np.inf
                    for g in range(n_limits):
                        if member[g, d]:
                            room = min(room, left[g])
                            score += size[u] * (w[PRICE] + w[SCARCE] / max(left[g], 1.0))
                    if roomiest < 0 or room > most:
                        roomiest, most = d, room
                    if size[u] > room:
                        continue
                    if kind == OVERLAP:
                        score += ready[d]
                    else:
                        score += arriving[d] + (free[d] if kind == LOAD else 0.0)
                    score += (1.0 + w[MS]) * unit_ms[u, d] + w[ARRIVING] * arriving[d]
                    score += w[WAITING] * (free[d] - low)
                    if d != origin and origin >= 0:
                        score += w[STICK]
                    if d == problem.host:
                        score += w[HOST]
                    if score < least:
                        chosen, least = d, score
                if chosen < 0:
                    chosen, fits_all = roomiest, False
                place[u] = chosen
                for g in range(n_limits):
                    if member[g, chosen]:
                        left[g] -= size[u]

            # the operator runs there: inputs that are elsewhere move, once to each device
            d = place[u]
            begin = free[d]
            for r in range(first[i], first[i + 1]):
                m, t = maker[r], tensor[r]
                here = place[unit[m]]
                there = finish[m]
                if here != d and (each_reader or moved[t, d] != k):
                    moved[t, d] = k
                    if kind == SERIAL:
                        total += transfer_ms[t, here, d]
                    elif kind == LOAD:
                        free[d] += boundary_ms[t, d]
                        free[here] += 0.0 if moved[t, here] == k else boundary_ms[t, here]
                        moved[t, here] = k
                    else:
                        one, other = send[here, d], receive[here, d]
                        if one >= 0:
                            there = max(there, channel_free[one])
                        if other >= 0:
                            there = max(there, channel_free[other])
                        there += transfer_ms[t, here, d]
                        if one >= 0:
                            channel_free[one] = there + problem.link_gap_ms
                        if other >= 0:
                            channel_free[other] = there + problem.link_gap_ms
                    arrival[t, d] = there
                elif here != d:
                    there = arrival[t, d]
                begin = max(begin, there)
            if kind == OVERLAP:
                finish[i] = begin + ms[i, d]
                free[d] = finish[i] + problem.gap_ms
            else:
                finish[i] = 0.0
                free[d] += ms[i, d]
                total += ms[i, d]

        if kind != SERIAL:
            total = free[0]
            for d in range(1, n_devices):
                total = max(total, free[d])
            for c in range(problem.n_channels if kind == OVERLAP else 0):
                total = max(total, channel_free[c])
        costs_ms[k] = total if fits_all else np.inf
        for u in range(n_units):
            places[k, u] = place[u]


@kernel
def look_ahead(
    problem: ListProblem, order: IntArray, weights: FloatArray, places: UInt8, costs_ms: FloatArray
) -> None:
    """Improve a list schedule unit by unit, each by how long schedules of the rest then take.

    Args:
        problem: What is placed.
        order: Units in the order of their first operators, as many as are to be improved.
        weights: (k, 9) of the schedules of the rest, without tastes; see ``schedule_lists``. The
            schedule that is improved has the first of these.
        places: (2, n_units) gets the devices in its first row; the second is for trials.
        costs_ms: (2,) gets the time of each.
    """
    seeds = np.zeros(1, np.uint64)
    best, trial = slice(0, 1), slice(1, 2)
    schedule_problem(problem, weights[:1], seeds, order[:0], places[best], costs_ms[best])
    for j, u in enumerate(order):
        for d in range(problem.ms.shape[1]):
            for w in range(len(weights) if problem.supported[u, d] else 0):
                places[1] = places[0]
                places[1, u] = d
                one, given = weights[w : w + 1], order[: j + 1]
                schedule_problem(problem, one, seeds, given, places[trial], costs_ms[trial])
                if costs_ms[1] < costs_ms[0]:
                    places[0], costs_ms[0] = places[1], costs_ms[1]
