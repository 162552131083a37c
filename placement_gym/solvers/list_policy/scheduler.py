"""A list scheduler: one unit after another is placed on the device of the smallest score.

A policy chooses the weights of scores; ``earliest_finish`` and ``lookahead`` need none. Units are
placed in the order in which the simulator runs their first operators, within support and memory
limits; a unit that fits on no device goes to the one with the most room.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from placement_gym.base import (
    FloatArray,
    IntArray,
    UInt8,
    UInt64,
    inlined_part,
    kernel,
    round_significant,
)
from placement_gym.problem import Problem
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers import RepairPrices, merge_submodels, repair
from placement_gym.solvers.list_policy.list_problem import (
    LOAD,
    OVERLAP,
    SERIAL,
    ListProblem,
    is_exact,
)

NAMES = ("price", "ms", "arriving", "stick", "scarce", "strength", "lasting", "host", "load")
"""Columns of the weights, see ``schedule_lists``."""
PRICE, MS, ARRIVING, STICK, SCARCE, STRENGTH, LASTING, HOST, WAITING = range(len(NAMES))
GAMMA, FIRST_FACTOR, SECOND_FACTOR = map(
    np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
FAR, NEAR, LAST, LOW_BITS = map(np.uint64, (30, 27, 31, 11))
"""Constants of SplitMix64."""
NOTHING = np.empty(0, np.int64)
N_WEIGHTS = len(NAMES)
MEANS = np.array([-3.0, 0.0, 0.0, 0.0, 0.0, -1.0, -3.0, 0.0, 0.0])
SCALES = np.array([3.0, 0.5, 0.5, 0.3, 0.5, 2.0, 2.0, 0.5, 0.2])
"""Weights are these means plus an action times these scales; price, strength and lasting are then
exponents of two."""
POWERS = [PRICE, STRENGTH, LASTING]
IN_MEAN_TIMES = [STICK, SCARCE, STRENGTH, HOST]
"""Weights that are multiples of the mean time of an operator."""
DIGITS = 6
"""Digits of a weight: networks and powers differ in their last bits between processors."""
SIMULATED = 3
"""Number of schedules that the simulator compares if times are estimates."""
GAINS = 0.5
"""Price of a byte in typical gains; the best of six on validation problems of the stream."""


@inlined_part
def draw_uniform(state: int) -> float:
    """A number from 0 to 1 of a state that grows by ``GAMMA``: SplitMix64 (Steele et al. 2014)."""
    mixed = (state ^ (state >> FAR)) * FIRST_FACTOR
    mixed = (mixed ^ (mixed >> NEAR)) * SECOND_FACTOR
    return float((mixed ^ (mixed >> LAST)) >> LOW_BITS) * 2.0**-53


@kernel
def schedule_lists(
    problem: ListProblem,
    weights: FloatArray,
    seeds: UInt64,
    given: IntArray,
    places: UInt8,
    costs_ms: FloatArray,
) -> None:
    """Make a list schedule for each row of weights.

    A unit is placed when its first operator has its turn. The score of a device is when the
    operator would be ready there (or, for a sum of loads, its share of it), plus the unit's time,
    and::

          ms x its time  +  arriving x transfers of its inputs  +  taste of the device
        + stick, if the latest input is elsewhere  +  host, if that is the device
        + price x its bytes  +  scarce x its bytes / free bytes, if the device has a limit
        + load x (when the device is free - when the first one is)

    Tastes are uniform up to ``strength``, and drawn again before a unit with probability
    ``lasting``. A unit that no device has room for goes to the one with the most.

    Args:
        problem: The arrays of the problem.
        weights: (k, 9) ``NAMES``; price in ms per byte; stick, scarce, strength and host in ms.
        seeds: (k,) of the tastes of each schedule.
        given: First units of the order that have their devices in ``places`` already.
        places: (k, n_units) gets devices.
        costs_ms: (k,) gets times, infinite where limits are exceeded. They are the simulator's if
            ``is_exact``; otherwise transfers wait for those of operators scheduled before.
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
                # arrivals on every device of inputs with a device; those of the first operator have
                # run
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

            # the operator runs there: inputs from elsewhere move, once to each device
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
    """Improve a list schedule unit by unit, by the times of schedules of all later units.

    Starts from the schedule of the first of (k, 9) ``weights``, without tastes. Units have the
    ``order`` of their first operators. (2, n_units) ``places`` gets the devices in its first row,
    (2,) ``costs_ms`` the time in its first element; the second ones are for trials.
    """
    seeds = np.zeros(1, np.uint64)
    best, trial = slice(0, 1), slice(1, 2)
    schedule_lists(problem, weights[:1], seeds, order[:0], places[best], costs_ms[best])
    for j, u in enumerate(order):
        for d in range(problem.ms.shape[1]):
            for w in range(len(weights) if problem.supported[u, d] else 0):
                places[1] = places[0]
                places[1, u] = d
                one, given = weights[w : w + 1], order[: j + 1]
                schedule_lists(problem, one, seeds, given, places[trial], costs_ms[trial])
                if costs_ms[1] < costs_ms[0]:
                    places[0], costs_ms[0] = places[1], costs_ms[1]


class ListScheduler:
    """Makes many list schedules of one problem at once.

    ``exact`` is true if times of schedules are the simulator's latencies.
    """

    def __init__(self, problem: Problem, simulator: Simulator) -> None:
        self.problem, self.simulator = problem, simulator
        self.exact = is_exact(simulator) and problem.max_submodels is None

    @cached_property
    def view(self) -> ListProblem:
        """The arrays of the problem."""
        return ListProblem.from_problem(self.problem, self.simulator)

    def schedule(self, actions: FloatArray, rng: np.random.Generator) -> tuple[UInt8, FloatArray]:
        """Make a schedule for each of (k, ``N_WEIGHTS``) actions.

        Returns (k, n_units) devices, and (k,) times in ms, infinite where limits are exceeded.
        """
        return self.run(convert(actions, self.view.gain_ms, self.view.mean_ms), rng)

    def run(self, weights: FloatArray, rng: np.random.Generator) -> tuple[UInt8, FloatArray]:
        """Make schedules by (k, ``N_WEIGHTS``) weights of ``schedule_lists``; see ``schedule``."""
        k = len(weights)
        seeds = rng.integers(2**64, size=k, dtype=np.uint64)
        places, costs_ms = np.empty((k, self.problem.n_units), np.uint8), np.empty(k)
        schedule_lists(self.view, weights, seeds, NOTHING, places, costs_ms)
        return places, costs_ms

    def evaluate(self, actions: FloatArray, rng: np.random.Generator) -> tuple[UInt8, FloatArray]:
        """As ``schedule``, with the simulator's latencies if times are estimates."""
        places, costs_ms = self.schedule(actions, rng)
        if not self.exact:
            fits = np.isfinite(costs_ms)
            costs_ms[fits] = self.simulator.latencies_ms(places[fits])
        return places, costs_ms

    def find_best(
        self, actions: FloatArray, rng: np.random.Generator, number: int = 1
    ) -> tuple[UInt8, FloatArray]:
        """Make schedules as ``schedule`` does and return the best ones, at most ``number``.

        If times are estimates, the best ``SIMULATED`` are simulated. If no schedule keeps the
        limits, some are repaired. Returns (m, n_units) devices, and (m,) costs in ms, ascending;
        infinite if a repair failed.
        """
        return self.choose(*self.schedule(actions, rng), number)

    def choose(
        self, places: UInt8, costs_ms: FloatArray, number: int = 1
    ) -> tuple[UInt8, FloatArray]:
        """The best of the schedules of ``schedule``; see ``find_best``."""
        if not np.isfinite(costs_ms).any():
            return self.compare(self.repair(places[:SIMULATED]), number)
        order = np.argsort(costs_ms, kind="stable")
        order = order[np.isfinite(costs_ms[order])]
        if self.exact:
            return places[order[:number]], costs_ms[order[:number]]
        return self.compare(places[order[: max(SIMULATED, number)]], number)

    def compare(self, places: UInt8, number: int) -> tuple[UInt8, FloatArray]:
        """The best of (k, n_units) placements by the simulator, with few enough submodels."""
        problem, simulator = self.problem, self.simulator
        merged = [merge_submodels(problem, simulator, place.astype(np.int64)) for place in places]
        places = np.stack(merged).astype(np.uint8)
        costs_ms = np.array([cost_ms(problem, simulator, place) for place in places])
        order = np.argsort(costs_ms, kind="stable")[:number]
        return places[order], costs_ms[order]

    def repair(self, places: UInt8) -> UInt8:
        """Move units of (k, n_units) placements that exceed limits."""
        fitting = repair(self.problem, places.astype(np.int64), self.prices)
        return fitting.astype(np.uint8)

    @cached_property
    def prices(self) -> RepairPrices:
        """Costs that a repair minimises."""
        return RepairPrices.from_costs(self.problem, self.simulator.costs)


def find_best_of_each(
    schedulers: Sequence[ListScheduler], actions: FloatArray, rngs: Sequence[np.random.Generator]
) -> list[tuple[UInt8, float]]:
    """``find_best`` of each scheduler for its one action; all are converted at once."""
    gains_ms = np.array([scheduler.view.gain_ms for scheduler in schedulers])
    means_ms = np.array([[scheduler.view.mean_ms] for scheduler in schedulers])
    weights = convert(actions, gains_ms, means_ms)
    chosen = (
        scheduler.choose(*scheduler.run(weights[k : k + 1], rng))
        for k, (scheduler, rng) in enumerate(zip(schedulers, rngs, strict=True))
    )
    return [(places[0], float(costs_ms[0])) for places, costs_ms in chosen]


def convert(
    actions: FloatArray, gain_ms: float | FloatArray, mean_ms: float | FloatArray
) -> FloatArray:
    """(k, ``N_WEIGHTS``) weights of ``schedule_lists`` from actions, in problems of such times."""
    weights: FloatArray = MEANS + SCALES * actions
    weights[:, LASTING] = np.minimum(weights[:, LASTING], 0.0)
    weights[:, POWERS] = np.exp2(weights[:, POWERS])
    weights[:, PRICE] *= gain_ms
    weights[:, IN_MEAN_TIMES] *= mean_ms
    return round_significant(weights, DIGITS)


def draw_actions(rng: np.random.Generator, number: int) -> FloatArray:
    """(number, ``N_WEIGHTS``) random actions, with prices and tastes as in ``solvers.search``.

    Prices span twelve octaves, and seven of ten schedules have tastes.
    """
    weights = np.tile(MEANS, (number, 1))
    octaves = rng.integers(0, 12, number) - 8.0
    weights[:, PRICE] = octaves + np.log2(0.5 + rng.random(number))
    strengths = np.log2(1.0 - rng.random(number)) + rng.integers(0, 6, number)
    weights[:, STRENGTH] = np.where(rng.random(number) < 0.7, strengths, -99.0)
    weights[:, LASTING] = -rng.integers(0, 9, number)
    return (weights - MEANS) / SCALES


def earliest_finish(problem: Problem, simulator: Simulator) -> IntArray:
    """Place each unit on the device on which it finishes first; returns (n_units,) devices.

    Under schedules that are sums, such as ``serial``, on the device of the least time and transfers
    of inputs.
    """
    return list_schedule(problem, simulator, 0)


def lookahead(problem: Problem, simulator: Simulator) -> IntArray:
    """Place each unit on the device with which the whole schedule ends first.

    For each device ``earliest_finish`` places all later units, and once more at a price of memory
    if that is limited; so the time grows with the square of their number. Returns (n_units,)
    devices.
    """
    return list_schedule(problem, simulator, problem.n_units)


def list_schedule(problem: Problem, simulator: Simulator, n_ahead: int) -> IntArray:
    """(n_units,) devices by ``earliest_finish``, of which the first ``n_ahead`` look ahead."""
    view = ListProblem.from_problem(problem, simulator)
    units, first = np.unique(view.unit[view.sequence], return_index=True)
    order = units[np.argsort(first)][:n_ahead].astype(np.int64)
    weights = np.zeros((2 if len(view.limit) else 1, len(NAMES)))
    weights[1:, PRICE] = GAINS * view.gain_ms
    places = np.empty((2, problem.n_units), np.uint8)
    look_ahead(view, order, weights, places, np.empty(2))
    return places[0].astype(np.int64)
