# White-box tests of solvers.list_policy
"""List schedules by weights: their times, limits, devices and randomness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from by_hand import find_least_ms, problem_of, random_backend
from drawn_cases import cases

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.envs import SimulatedEnv, StreamProblem
from placement_gym.graph.families import make_problem
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers.list_policy import (
    N_WEIGHTS,
    ListScheduler,
    draw_actions,
    find_best_of_each,
    is_exact,
)
from placement_gym.solvers.list_policy.scheduler import MEANS, SCALES, convert

NEUTRAL = np.zeros((1, N_WEIGHTS))


def scheduler_of(**kwargs: Any) -> ListScheduler:
    env = SimulatedEnv(observe_graph=False, **kwargs)
    return ListScheduler(env.problem, env.simulated.simulator)


def plain(price: float = -99.0) -> np.ndarray:
    """An action without tastes, or other terms than a price."""
    weights = np.where(np.isin(np.arange(N_WEIGHTS), (0, 5)), -99.0, MEANS)
    weights[0] = price
    return ((weights - MEANS) / SCALES)[None]


@pytest.mark.parametrize("schedule", ["list", "serial", "load", "event", "calls"])
def test_times_are_the_simulators_where_they_are_called_exact(schedule: str) -> None:
    exact = 0
    for units, costs, semantics, _ in cases(60, schedule):
        n_devices = len(costs.devices)
        problem = problem_of(units, costs, np.zeros(len(units.of_operator), np.int64))
        simulator = Simulator(units, costs, semantics)
        rng = np.random.default_rng(0)
        scheduler = ListScheduler(problem, simulator)
        places, costs_ms = scheduler.schedule(draw_actions(rng, 4), rng)
        assert places.max() < n_devices
        if is_exact(simulator):
            exact += 1
            assert costs_ms == pytest.approx(simulator.latencies_ms(places))
    assert (exact > 3) == (schedule in ("list", "serial", "load"))


@pytest.mark.parametrize("seed", range(20_000, 20_005))
def test_costs_of_the_best_schedules_are_the_simulators(seed: int) -> None:
    scheduler = StreamProblem(make_problem(seed), {}).scheduler
    rng = np.random.default_rng(0)
    places, costs_ms = scheduler.find_best(draw_actions(rng, 30), rng, 3)
    assert (np.diff(costs_ms) >= 0.0).all()
    true = [cost_ms(scheduler.problem, scheduler.simulator, place) for place in places]
    assert costs_ms == pytest.approx(true)


@pytest.mark.parametrize("seed", range(8))
def test_schedules_respect_support_and_limits_and_meet_the_optimum(seed: int) -> None:
    backend = random_backend(seed)
    assert isinstance(backend, SimulatedBackend)
    problem, rng = backend.problem, np.random.default_rng(seed)
    scheduler = ListScheduler(problem, backend.simulator)
    places, costs_ms = scheduler.schedule(draw_actions(rng, 500), rng)
    for place, cost in zip(places, costs_ms, strict=True):
        assert problem.unsupported(place) == ""
        assert np.isfinite(cost) == (problem.infeasibility(place.astype(np.int64)) == "")
    least = find_least_ms(backend)
    assert costs_ms.min() >= least * (1.0 - 1e-9)
    if problem.n_units < 6:
        assert costs_ms.min() == pytest.approx(least, rel=0.2)


def test_devices_of_a_pool_share_their_room() -> None:
    gpus = [
        {"name": name, "weight_share": 0.3, "memory_pool": "board"} for name in ("GPU.0", "GPU.1")
    ]
    scheduler = scheduler_of(model="resnet", devices=["CPU", *gpus], schedule="list")
    rng = np.random.default_rng(0)
    places, costs_ms = scheduler.schedule(draw_actions(rng, 50), rng)
    assert np.isfinite(costs_ms).all()
    held = np.array([scheduler.problem.memory_bytes(place) for place in places])
    assert (held[:, 1:].sum(axis=1) <= 0.3 * scheduler.problem.unit_bytes.sum()).all()
    assert (held[:, 1:] > 0).any(axis=0).all()


def test_what_fits_nowhere_is_repaired() -> None:
    tight = [{"name": f"GPU.{i}", "weight_share": 0.336} for i in range(3)]
    scheduler = scheduler_of(model="resnet", devices=tight, schedule="list")
    greedy = np.tile(plain(), (4, 1))
    _, costs_ms = scheduler.schedule(greedy, np.random.default_rng(0))
    _, repaired_ms = scheduler.find_best(greedy, np.random.default_rng(0))
    assert not np.isfinite(costs_ms).any()
    assert np.isfinite(repaired_ms).all()


def test_a_price_of_memory_leaves_limited_devices_empty() -> None:
    devices = ["CPU", {"name": "GPU.0", "weight_share": 0.5}]
    scheduler = scheduler_of(model="resnet", devices=devices, schedule="list")
    used = [
        int((scheduler.schedule(plain(price), np.random.default_rng(0))[0] == 1).sum())
        for price in (-99.0, 30.0)
    ]
    assert used[0] > used[1]
    size = scheduler.view.size
    dear = scheduler.schedule(plain(30.0), np.random.default_rng(0))[0][0]
    assert not (dear[size > 0.0] == 1).any()


def test_equal_seeds_make_equal_schedules_and_others_differ() -> None:
    scheduler = scheduler_of(model="synthetic-layered-200", devices="cpu+2dgpu", schedule="list")
    actions = draw_actions(np.random.default_rng(0), 8)
    runs = [scheduler.schedule(actions, np.random.default_rng(seed))[0] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()


def test_schedules_of_many_problems_are_those_of_each() -> None:
    schedulers = [StreamProblem(make_problem(seed), {}).scheduler for seed in range(8)]
    rng = np.random.default_rng(0)
    for chosen in (schedulers[:5], schedulers[3:], [*schedulers[:2], *schedulers[1::-1]]):
        actions = draw_actions(rng, len(chosen))
        rngs = [np.random.default_rng(k) for k in range(len(chosen))]
        found = find_best_of_each(chosen, actions, rngs)
        for k, (place, found_ms) in enumerate(found):
            alone = chosen[k].find_best(actions[k : k + 1], np.random.default_rng(k))
            np.testing.assert_array_equal(place, alone[0][0])
            assert found_ms == alone[1][0]


def test_last_bits_of_actions_change_nothing() -> None:
    actions = draw_actions(np.random.default_rng(0), 50)
    np.testing.assert_array_equal(
        convert(actions, 1.0, 1.0), convert(np.nextafter(actions, np.inf), 1.0, 1.0)
    )


def test_several_models_are_placed_by_load() -> None:
    models = "resnet:2+mobilenet"
    scheduler = scheduler_of(model=models, devices="cpu+2dgpu", objective="throughput")
    rng = np.random.default_rng(0)
    places, costs_ms = scheduler.find_best(draw_actions(rng, 50), rng)
    single = min(scheduler.simulator.latency_ms(np.full_like(places[0], d)) for d in range(3))
    assert costs_ms[0] < 0.9 * single


def test_a_graph_of_20_000_operators_is_scheduled() -> None:
    scheduler = scheduler_of(
        model="synthetic-layered-20000", devices="cpu+2dgpu", schedule="list", granularity="op"
    )
    places, costs_ms = scheduler.find_best(NEUTRAL, np.random.default_rng(0))
    assert places.shape[1] > 17_000
    assert costs_ms[0] < scheduler.simulator.latency_ms(np.zeros_like(places[0]))
