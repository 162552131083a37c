"""Refinement: gains are exact, limits hold, prices act."""

from __future__ import annotations

import numpy as np
import pytest
from levels import random_places, random_problem, serial_ms

from placement_gym.solvers.levels.levels import Level
from placement_gym.solvers.levels.refine import (
    TRIES,
    RefinementPrices,
    descend,
    exchange,
    make_state,
    move,
    price_devices,
    relieve,
)

SERIAL = RefinementPrices(np.zeros(3), 1.0, 0.0, 1.0)
SEEDS = pytest.mark.parametrize("seed", range(20))


def make(seed: int, n: int = 40) -> tuple[Level, np.ndarray, np.ndarray]:
    backend = random_problem(seed, n)
    problem = backend.problem
    level = Level.of_units(problem, backend.costs)
    place = random_places(np.random.default_rng(seed), level.possible, 1)[0]
    return level, place, problem.limits_bytes


@SEEDS
def test_a_price_difference_is_the_change_of_the_serial_latency(seed: int) -> None:
    level, place, limits = make(seed)
    state, cost = make_state(level, place.copy(), limits), np.empty(3)
    for u in range(len(place)):
        price_devices(level, state, u, SERIAL, cost)
        for device in range(3):
            changed = state.place.copy()
            changed[u] = device
            if not level.possible[u, device]:
                assert np.isinf(cost[device])
                continue
            gain = serial_ms(level, changed) - serial_ms(level, state.place)
            assert cost[device] - cost[state.place[u]] == pytest.approx(gain, abs=1e-9)
        move(level, state, u, int(cost.argmin()))
    fresh = make_state(level, state.place, limits)
    assert (fresh.readers_on == state.readers_on).all()
    assert np.allclose(fresh.room, state.room)
    assert np.allclose(fresh.load, state.load)
    assert np.allclose(fresh.total_ms, state.total_ms)


@SEEDS
def test_descent_never_raises_the_serial_latency(seed: int) -> None:
    level, place, limits = make(seed)
    state = make_state(level, place, limits)
    before = serial_ms(level, place)
    while descend(level, state, SERIAL, np.arange(len(place)), False):
        assert serial_ms(level, place) < before
        before = serial_ms(level, place)


@SEEDS
def test_relief_descent_and_exchange_hold_limits(seed: int) -> None:
    level, place, limits = make(seed)
    state = make_state(level, place, limits)
    order = np.arange(len(place))
    assert relieve(level, state, SERIAL, np.zeros(len(place), dtype=np.bool_))
    before = serial_ms(level, place)
    descend(level, state, SERIAL, order, True)
    draws = np.random.default_rng(seed).random((len(place), TRIES))
    exchange(level, state, SERIAL, order, draws)
    assert serial_ms(level, place) <= before + 1e-9
    assert (np.bincount(place, level.held, 3) <= limits).all()
    assert level.possible[order, place].all()


def test_relief_leaves_what_is_kept() -> None:
    level, place, limits = make(1)
    place[:] = np.where(level.possible[:, 1], 1, 0)
    kept = np.arange(len(place)) % 2 == 0
    before = place.copy()
    relieve(level, make_state(level, place, limits), SERIAL, kept)
    assert (place[kept] == before[kept]).all()
    assert (place != before).any()


def test_a_price_of_memory_empties_a_device() -> None:
    level, place, limits = make(2)
    state = make_state(level, place, limits)
    dear = SERIAL._replace(per_byte=np.array([0.0, 1e6, 1e6]))
    descend(level, state, dear, np.arange(len(place)), False)
    assert (level.held[place != 0] == 0).all()


def test_a_power_of_loads_balances_them() -> None:
    level, _, _ = make(3, n=300)
    spans = []
    for power in (0.0, 8.0):
        state = make_state(level, np.zeros(300, dtype=np.int64), np.full(3, np.inf))
        for _ in range(10):
            descend(
                level,
                state,
                RefinementPrices(np.zeros(3), 0.0, power, 100.0),
                np.arange(300),
                False,
            )
        spans.append(state.load.max())
    assert spans[1] < spans[0]
