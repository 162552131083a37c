# White-box tests of solvers.search
"""The search keeps limits and budgets, and finds the optimum of small problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from by_hand import chain as row_of
from by_hand import cost_table, find_least_ms, grouped, problem_of, random_backend

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray, UserError
from placement_gym.envs import placement_env
from placement_gym.hardware import DeviceSpec
from placement_gym.problem.costs import PRESETS, Semantics
from placement_gym.solvers.search import AnytimeSearch, search
from placement_gym.solvers.search.anytime import WORK

SCHEDULES = {
    "serial": Semantics(),
    "list": PRESETS["list"],
    "list by rank": Semantics("list", contention="none", order="priority"),
    "load": PRESETS["tarnawski-throughput"],
    "event": PRESETS["event"],
    "calls": PRESETS["tarnawski-latency"],
}
SIMULATED = ("event", "calls")
"""Every move is simulated from the beginning, which takes a while."""
CASES = [
    pytest.param(name, seed, marks=[pytest.mark.slow] if seed else [])
    for name in SCHEDULES
    for seed in range(12)
]
Make = Callable[[str, int], SimulatedBackend]
EVERY = pytest.mark.parametrize("schedule", SCHEDULES)


def drawn(schedule: str, seed: int) -> SimulatedBackend:
    """A few operators, some refused by a device, some devices with tight limits."""
    backend = random_backend(seed, most=6 if schedule in SIMULATED else 8)
    host = np.arange(len(backend.problem.devices)) == 0
    return SimulatedBackend(backend.problem, replace(backend.costs, host=host), SCHEDULES[schedule])


def sharing(schedule: str, seed: int, share: float = 0.4) -> SimulatedBackend:
    """The same; all devices but the first share memory for some of the units."""
    backend = drawn(schedule, seed)
    first, *others = backend.problem.devices
    pooled = [DeviceSpec(one.name, memory_pool="host", weight_share=share) for one in others]
    problem = replace(backend.problem, devices=(first, *pooled))
    return SimulatedBackend(problem, backend.costs, backend.semantics)


def find(backend: SimulatedBackend, seed: int = 0, **budget: Any) -> tuple[IntArray, float]:
    rng = np.random.default_rng(seed)
    found = search(backend.problem, backend.costs, backend.semantics, rng=rng, **budget)
    return found.assignment, found.latency_ms


def enough(schedule: str, seed: int) -> int:
    """Evaluations in which the optimum of a small problem is found; fewer in the quick tests."""
    return 10 if schedule in SIMULATED and not seed else 40


@pytest.mark.parametrize("make", [drawn, sharing])
@pytest.mark.parametrize(("schedule", "seed"), CASES)
def test_it_finds_the_optimum_of_small_problems(make: Make, schedule: str, seed: int) -> None:
    backend = make(schedule, seed)
    assignment, latency_ms = find(backend, evaluations=enough(schedule, seed))
    assert backend.infeasibility(assignment) == ""
    assert latency_ms == pytest.approx(backend.evaluate(assignment).latency_ms, rel=1e-9)
    assert latency_ms == pytest.approx(find_least_ms(backend), rel=1e-9)


@EVERY
def test_whatever_it_proposes_keeps_limits_and_is_new(schedule: str) -> None:
    for backend in (drawn(schedule, 3), sharing(schedule, 5)):
        proposed = propose(backend, 15)
        assert len({one.tobytes() for one in proposed}) == len(proposed) > 0
        assert [backend.infeasibility(one) for one in proposed] == [""] * len(proposed)


def propose(backend: SimulatedBackend, k: int, seed: int = 0) -> list[IntArray]:
    """The first placements that a search proposes, at most ``k``."""
    anytime = AnytimeSearch(backend.problem, backend.simulator, np.random.default_rng(seed))
    proposed = []
    for placement in anytime.propose():
        proposed.append(placement)
        if len(proposed) == k:
            break
    assert anytime.proposed == len(proposed)
    return proposed


def large(schedule: str, **kwargs: Any) -> SimulatedBackend:
    """A problem for which nothing proves an optimum."""
    semantics = vars(SCHEDULES[schedule]) if schedule != "load" else {"schedule": "load"}
    env = gym.make(
        "placement_gym:DevicePlacementSim-v0",
        model="synthetic-layered-100",
        devices=["CPU", {"name": "GPU.0", "weight_share": 0.3}, {"name": "GPU.1"}],
        schedule=semantics,
        **kwargs,
    )
    backend = placement_env(env).backend
    assert isinstance(backend, SimulatedBackend)
    return backend


@pytest.mark.parametrize("schedule", ["list", "load"])
def test_more_evaluations_continue_fewer_and_are_never_worse(schedule: str) -> None:
    backend = large(schedule)
    whole = propose(backend, 20)
    assert [one.tolist() for one in propose(backend, 10)] == [one.tolist() for one in whole[:10]]
    reached = [find(backend, evaluations=k)[1] for k in (1, 5, 20)]
    assert reached == sorted(reached, reverse=True)


def test_equal_seeds_find_equal_placements_and_others_differ() -> None:
    backend = large("list")
    first, same, other = (propose(backend, 10, seed) for seed in (0, 0, 1))
    assert [one.tolist() for one in first] == [one.tolist() for one in same]
    assert [one.tolist() for one in first] != [one.tolist() for one in other]
    found = [search(backend.problem, backend.costs, "list", evaluations=5) for _ in range(2)]
    assert (found[0].assignment == found[1].assignment).all()


def test_it_begins_with_the_starts_that_are_given() -> None:
    backend = large("list")
    best, least_ms = find(backend, evaluations=30)
    assert find(backend, seed=1, evaluations=1, starts=[best])[1] <= least_ms
    assert (find(backend, seed=1, evaluations=1, starts=[])[0] != best).any()


def test_starts_are_checked_and_made_feasible() -> None:
    backend = large("list", constraints={"keep_off": {"GPU.1": ["*1"]}})
    everywhere = backend.problem.single(2)
    assert backend.problem.infeasibility(everywhere)
    place, ms = find(backend, evaluations=1, starts=[everywhere])
    assert np.isfinite(ms)
    assert not backend.problem.infeasibility(place)
    with pytest.raises(UserError, match="an assignment is"):
        find(backend, evaluations=1, starts=[everywhere[1:]])


@pytest.mark.parametrize("evaluations", [1, 2.0, 17])
def test_a_budget_of_evaluations_is_kept(evaluations: int) -> None:
    backend = large("list")
    found = search(backend.problem, backend.costs, backend.semantics, evaluations=evaluations)
    assert found.evaluations == evaluations
    for wrong in (1.5, 0):
        with pytest.raises(UserError, match="evaluations must be an integer of at least 1"):
            find(backend, evaluations=wrong)


@pytest.mark.slow  # it reads a clock
@EVERY
def test_a_budget_of_seconds_is_kept_within_20_ms(schedule: str) -> None:
    backend = large(schedule)
    find(backend, evaluations=1)
    late = []
    for _ in range(5):  # other processes may delay one of them
        began = perf_counter()
        found = search(backend.problem, backend.costs, backend.semantics, seconds=0.15)
        late.append(perf_counter() - began - 0.15)
        assert found.seconds <= 0.15 + late[-1]
    assert min(late) < 0.02


def test_of_two_budgets_the_first_to_be_spent_ends_the_search() -> None:
    backend = large("list")
    found = search(backend.problem, backend.costs, backend.semantics, seconds=60.0, evaluations=2)
    assert found.evaluations == 2
    found = search(
        backend.problem, backend.costs, backend.semantics, seconds=0.05, evaluations=10**6
    )
    assert found.seconds < 2.0


def test_without_a_budget_there_is_no_search() -> None:
    backend = drawn("serial", 0)
    with pytest.raises(UserError, match="needs a budget"):
        search(backend.problem, backend.costs)


def chain(n: int, n_devices: int, supported: Any = None, shares: Any = None) -> SimulatedBackend:
    """Operators that read each other; transfers take no time."""
    units = grouped(row_of(n))
    ms = [[float(1 + (i + d) % n_devices) for d in range(n_devices)] for i in range(n)]
    costs = cost_table(units.graph, ms, [0.0] * (n - 1))
    able = None if supported is None else np.array(supported)
    problem = problem_of(
        units, costs, np.full(n, 10), able, weight_share=shares or [None] * n_devices
    )
    return SimulatedBackend(problem, costs)


def test_without_limits_or_transfers_units_take_the_fastest() -> None:
    backend = chain(9, 3)
    assignment, latency_ms = find(backend, evaluations=50)
    assert latency_ms == pytest.approx(9.0)
    assert assignment.tolist() == [-i % 3 for i in range(9)]


@EVERY
def test_one_device_is_the_answer(schedule: str) -> None:
    plain = chain(5, 1)
    costs = replace(plain.costs, host=np.array([True]))
    backend = SimulatedBackend(plain.problem, costs, SCHEDULES[schedule])
    found = search(backend.problem, backend.costs, backend.semantics, evaluations=50)
    assert found.assignment.tolist() == [0] * 5
    assert found.latency_ms == pytest.approx(5.0)
    assert found.evaluations == 1


@pytest.mark.parametrize("n_devices", [1, 3])
def test_one_unit_is_placed(n_devices: int) -> None:
    found = search(chain(1, n_devices).problem, chain(1, n_devices).costs, evaluations=50)
    assert found.assignment.tolist() == [0]
    assert 1 <= found.evaluations <= n_devices


def test_units_are_only_where_they_can_run() -> None:
    supported = [[True, u % 2 == 0, u % 3 == 0] for u in range(7)]
    backend = chain(7, 3, supported)
    assignment, latency_ms = find(backend, evaluations=50)
    assert backend.infeasibility(assignment) == ""
    assert latency_ms == pytest.approx(find_least_ms(backend))


def test_limits_that_only_a_full_packing_holds_are_kept() -> None:
    backend = chain(8, 4, shares=[0.25] * 4)
    assignment, latency_ms = find(backend, evaluations=50)
    assert backend.infeasibility(assignment) == ""
    assert np.bincount(assignment).tolist() == [2] * 4
    assert latency_ms == pytest.approx(8.0)


def test_where_nothing_fits_the_latency_is_infinite() -> None:
    backend = chain(4, 2, shares=[0.25, 0.25])
    _, latency_ms = find(backend, evaluations=50)
    assert latency_ms == np.inf


@pytest.mark.parametrize("seed", [72, 77, 81, 137])
def test_where_hardly_anything_fits_what_fits_is_found(seed: int) -> None:
    rng, units = np.random.default_rng(seed), grouped(row_of(7))
    costs = cost_table(units.graph, rng.integers(1, 9, (7, 3)), rng.integers(0, 3, 6))
    shares = [0.35, 0.35, 0.36]  # of 2,187 placements, between 2 and 18 fit
    problem = problem_of(units, costs, rng.integers(1, 30, 7), weight_share=shares)
    backend = SimulatedBackend(problem, costs, SCHEDULES["list"])
    assignment, latency_ms = find(backend, evaluations=50)
    assert backend.infeasibility(assignment) == ""
    assert latency_ms == pytest.approx(find_least_ms(backend))


def test_limits_that_do_not_count_are_ignored() -> None:
    limited = chain(6, 2, shares=[0.1, 0.1])
    semantics = Semantics("list", contention="none", memory="off")
    backend = SimulatedBackend(limited.problem, limited.costs, semantics)
    assert find(backend, evaluations=50)[1] == pytest.approx(6.0)


@pytest.mark.parametrize("never_ms", [1e10, 1e14])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("schedule", ["serial", "list", "load"])
def test_a_stated_latency_is_that_of_the_placement(
    schedule: str, seed: int, never_ms: float
) -> None:
    rng, graph = np.random.default_rng(seed), row_of(12)
    ms = rng.uniform(0.001, 0.01, (12, 3))
    ms[np.arange(12), rng.integers(3, size=12)] = never_ms
    costs = cost_table(graph, ms, np.full(11, 1e-4))
    backend = SimulatedBackend(problem_of(grouped(graph), costs), costs, SCHEDULES[schedule])
    assignment, latency_ms = find(backend, evaluations=20)
    assert latency_ms == pytest.approx(backend.evaluate(assignment).latency_ms, rel=1e-12)
    assert latency_ms < 0.15
    # the moves themselves see no rounding either
    anytime = AnytimeSearch(backend.problem, backend.simulator, rng)
    for state, _ in islice(anytime.advance_chains(), 30):
        anytime.keep_elite(state)
    for elite in anytime.elites:
        assert elite.ms == pytest.approx(backend.simulator.latency_ms(elite.place), rel=1e-6)


def test_an_evaluation_of_many_units_has_few_moves() -> None:
    n_moves = {}
    for n in (100, 20_000):
        graph = row_of(n)
        costs = cost_table(graph, np.ones((n, 2)), np.ones(n - 1))
        backend = SimulatedBackend(problem_of(grouped(graph), costs), costs)
        anytime = AnytimeSearch(backend.problem, backend.simulator, np.random.default_rng(0))
        n_moves[n] = WORK / anytime.move_work
    assert n_moves[100] == WORK / 30
    assert n_moves[20_000] < 500
