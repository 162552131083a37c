"""The multilevel placer: against brute force, heuristics, limits and seeds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from by_hand import random_backend
from levels import follow, random_problem, scorer
from published import DATA

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import build_simulated_problem
from placement_gym.costs.semantics import PRESETS
from placement_gym.solvers.levels.coarsen import coarsen
from placement_gym.solvers.levels.models import (
    BY_NUMBER,
    BY_RANK,
    SERIAL,
    Operators,
    choose_model,
    estimate_ms,
)
from placement_gym.solvers.levels.multilevel import search
from placement_gym.solvers.levels.pricing import Pricing, PricingTerms
from placement_gym.solvers.list_scheduling import heft, m_etf

Evaluate = Callable[[IntArray], FloatArray]
SCHEDULES = {"serial": SERIAL, "list": BY_NUMBER, "by rank": BY_RANK}


def multilevel(
    backend: SimulatedBackend, evaluate: Evaluate, evaluations: int, seed: int = 0
) -> IntArray:
    rng = np.random.default_rng(seed)
    proposals = search(backend.problem, backend.costs, rng, evaluations)
    return follow(proposals, evaluate, evaluations)


def backend_of(name: str, seed: int, n: int) -> SimulatedBackend:
    schedule = {"preset": "list", "order": "priority"} if name == "by rank" else name
    return random_problem(seed, n, schedule=schedule)


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_the_optimum_of_small_problems(seed: int) -> None:
    backend = random_backend(seed)
    problem = backend.problem
    every = np.array(list(product(range(len(problem.devices)), repeat=problem.n_units)))
    evaluate = scorer(backend)
    found = multilevel(backend, evaluate, 200, seed)
    assert evaluate(found[None])[0] == pytest.approx(evaluate(every).min())


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("seed", range(3))
def test_limits_hold_and_heuristics_are_not_better(seed: int, name: str) -> None:
    backend = backend_of(name, seed, 60)
    problem, evaluate = backend.problem, scorer(backend)
    found = multilevel(backend, evaluate, 60, seed)
    heuristics = np.stack([solver(problem, backend.costs) for solver in (heft, m_etf)])
    assert problem.infeasibility(found) == ""
    assert evaluate(found[None])[0] <= evaluate(heuristics).min()


def test_the_same_seed_finds_the_same_and_the_budget_holds() -> None:
    backend = backend_of("list", 5, 60)
    tried: list[list[IntArray]] = [[], [], []]
    for seen, seed in zip(tried, (0, 0, 1), strict=True):
        multilevel(backend, scorer(backend, seen), 77, seed)
    assert [len(seen) for seen in tried] == [77, 77, 77]
    assert (np.stack(tried[0]) == np.stack(tried[1])).all()
    assert (np.stack(tried[0]) != np.stack(tried[2])).any()


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("seed", range(3))
def test_models_are_the_simulated_schedules_and_are_recognised(seed: int, name: str) -> None:
    backend = backend_of(name, seed, 50)
    operators = Operators.of(backend.problem, backend.costs)
    places = np.random.default_rng(seed).integers(0, 3, (20, 50))
    exact = np.array([backend.evaluate_ignoring_limits(place).latency_ms for place in places])
    estimates = [estimate_ms(operators, SCHEDULES[name], place) for place in places]
    assert estimates == pytest.approx(exact.tolist(), rel=1e-12)
    assert choose_model(operators, places, 3.0 * exact) == (SCHEDULES[name], 0.0)


@pytest.mark.parametrize("terms", [PricingTerms(1.0, 0.0), PricingTerms(0.1, 3.0)])
def test_placing_under_terms_fills_limited_memory_but_no_more(terms: PricingTerms) -> None:
    gpu = [{"name": f"GPU.{i}", "weight_share": 0.3} for i in range(2)]
    twin = build_simulated_problem("synthetic-layered-2000", ["CPU", *gpu])
    problem, rng = twin.problem, np.random.default_rng(0)
    pricing = Pricing(coarsen(problem, twin.costs, rng), problem.limits_bytes, rng)
    place = pricing.place(terms)
    assert problem.infeasibility(place) == ""
    assert (problem.memory_bytes(place)[1:] > 0.95 * problem.limits_bytes[1:]).all()


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["serial", "list"])
def test_eighty_thousand_operators_are_placed_well(schedule: str) -> None:
    gpu = [{"name": f"GPU.{i}", "weight_share": 0.3} for i in range(2)]
    twin = build_simulated_problem("synthetic-layered-80000", ["CPU", *gpu])
    backend = SimulatedBackend(twin.problem, twin.costs, PRESETS[schedule])
    evaluate = scorer(backend)
    found = multilevel(backend, evaluate, 10)
    assert evaluate(found[None])[0] < {"serial": 3000.0, "list": 1000.0}[schedule]


def test_published_workloads_come_close_to_the_best_known() -> None:
    path = DATA / "latency-inputs/LayerGraphs/bert24_inference.json"
    twin = build_simulated_problem(path, "1cpu+1acc@0.5", "op")
    backend = SimulatedBackend(twin.problem, twin.costs, PRESETS["list"])
    evaluate = scorer(backend)
    found = multilevel(backend, evaluate, 100)
    assert evaluate(found[None])[0] < 1.01 * 411.357


def test_memory_has_a_price_among_equal_devices() -> None:
    devices = [{"name": f"GPU.{i}", "weight_share": 0.4 + 0.6 * (i == 0)} for i in range(3)]
    twin = build_simulated_problem("synthetic-layered-500", devices)
    problem, rng = twin.problem, np.random.default_rng(0)
    pricing = Pricing(coarsen(problem, twin.costs, rng), problem.limits_bytes, rng)
    assert (pricing.first_prices > 0).all()
    assert problem.infeasibility(pricing.place(PricingTerms(1.0, 3.0))) == ""
