"""Memory pools: several devices share one limit, which problems, backends and solvers keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from by_hand import cost_table, every_placement, made_graph
from fakes import diamond_backend, diamond_costs, diamond_problem
from graphs import chain, problem_on
from hypothesis import given
from hypothesis import strategies as st
from slow_repair import SlowRepair

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import BoolArray, IntArray, UserError
from placement_gym.bench import identify
from placement_gym.envs import DevicePlacementEnv
from placement_gym.hardware import DeviceSpec, parse_devices
from placement_gym.problem import Problem
from placement_gym.solvers import (
    RepairPrices,
    critical_path,
    fill_in_order,
    greedy_fill,
    heft,
    interchangeable_devices,
    load_ms,
    lower_bound,
    m_etf,
    repair,
    serial_program,
)
from placement_gym.solvers.programs import solve_path_load
from placement_gym.solvers.search import search

HOST = (
    DeviceSpec("CPU", memory_pool="host", memory_bytes=500),
    DeviceSpec("GPU", memory_pool="host"),
    DeviceSpec("GPU.1"),
)
"""The diamond's units hold 100, 200, 300 and 400 bytes."""


def fits(problem: Problem, placements: IntArray) -> BoolArray:
    """(k,) whether placements keep all limits, counted device by device from the specifications."""
    total = int(problem.unit_bytes.sum())
    feasible = []
    for placement in placements:
        held: dict[str, float] = {}
        limit: dict[str, float] = {}
        for index, device in enumerate(problem.devices):
            memory = device.memory_pool or f"own {index}"
            mine = float(problem.unit_bytes[placement == index].sum())
            held[memory] = held.get(memory, 0.0) + mine
            limit[memory] = min(limit.get(memory, np.inf), device.limit_bytes(total))
        feasible.append(all(held[memory] <= limit[memory] for memory in held))
    return np.array(feasible)


@st.composite
def backends(draw: st.DrawFn) -> SimulatedBackend:
    """A chain on three or four devices, some of which share memory; the last one has no limit."""
    n, d = draw(st.integers(2, 5)), draw(st.integers(3, 4))
    numbers = np.random.default_rng(draw(st.integers(0, 10_000)))
    graph = replace(chain(n), weight_bytes=numbers.integers(0, 6, n))
    pools = draw(st.lists(st.sampled_from(["", "a", "b"]), min_size=d - 1, max_size=d - 1))
    limits = {pool: int(numbers.integers(2, 12)) for pool in ("a", "b")}
    devices = [
        DeviceSpec(
            f"device{i}", memory_pool=pool, memory_bytes=limits.get(pool, int(numbers.integers(12)))
        )
        for i, pool in enumerate(pools)
    ]
    problem = problem_on(graph, (*devices, DeviceSpec(f"device{d - 1}")))
    costs = cost_table(
        graph,
        numbers.integers(1, 9, (n, d)).astype(float),
        numbers.integers(1, 3, n - 1).astype(float),
        link_ms_per_size=1.0 - np.eye(d),
    )
    return SimulatedBackend(problem, costs)


@given(backends())
def test_what_fits_is_what_an_oracle_counts(backend: SimulatedBackend) -> None:
    problem, placements = backend.problem, every_placement(backend.problem)
    expected = fits(problem, placements)
    assert (backend.evaluate_batch_exactly(placements)[1] == expected).all()
    for one in range(0, len(placements), 7):
        assert bool(problem.infeasibility(placements[one])) != expected[one]
        assert backend.evaluate(placements[one]).feasible == expected[one]


@given(backends())
def test_heuristics_keep_the_limits_of_pools(backend: SimulatedBackend) -> None:
    problem, costs = backend.problem, backend.costs
    found = [solve(problem, costs) for solve in (heft, critical_path, m_etf, greedy_fill)]
    found.append(search(problem, costs, "tarnawski-throughput", evaluations=10).assignment)
    found += list(
        repair(problem, every_placement(problem), RepairPrices.from_costs(problem, costs))
    )
    assert fits(problem, np.array(found)).all()


@given(backends())
def test_a_repair_in_pools_is_that_of_the_slow_oracle(backend: SimulatedBackend) -> None:
    problem = backend.problem
    prices = RepairPrices.from_costs(problem, backend.costs)
    slow, placements = SlowRepair(problem, prices), every_placement(problem)[::5]
    repaired = repair(problem, placements, prices)
    assert (repaired == np.array([slow(one) for one in placements])).all()


@given(backends())
def test_programs_find_the_optimum_within_pools(backend: SimulatedBackend) -> None:
    problem, costs, placements = backend.problem, backend.costs, every_placement(backend.problem)
    feasible = fits(problem, placements)
    latency_ms = backend.evaluate_batch_exactly(placements)[0][feasible]
    solved = serial_program(problem, costs)
    assert fits(problem, solved.assignment[None]).all()
    assert backend.evaluate(solved.assignment).latency_ms == pytest.approx(latency_ms.min())
    bound = lower_bound(problem, costs, backend.semantics)
    assert bound.bound_ms == pytest.approx(latency_ms.min())
    overlapping = solve_path_load(problem, costs, 10.0).assignment
    assert overlapping is not None
    assert fits(problem, overlapping[None]).all()


def test_the_bound_of_loads_counts_a_pool_once() -> None:
    graph = replace(made_graph(4, []), weight_bytes=np.full(4, 10))
    costs = cost_table(graph, [[1.0, 1.0, 5.0]] * 4, [])

    def bound(pool: str) -> float:
        devices = tuple(DeviceSpec(n, memory_bytes=20, memory_pool=pool) for n in ("CPU", "GPU"))
        return load_ms(problem_on(graph, (*devices, DeviceSpec("NPU"))), costs)

    assert bound("") < 2.0  # units are divided, and the slow device takes a little
    assert bound("host") == pytest.approx(10.0)  # half of them have to go to the slow one


def test_a_pool_has_one_limit_that_one_device_may_state() -> None:
    problem = diamond_problem(HOST)
    assert problem.memory.of_device.tolist() == [0, 0, 1]
    assert problem.memory.limits_bytes.tolist() == [500.0, np.inf]
    assert problem.limits_bytes.tolist() == [500.0, 500.0, np.inf]
    assert problem.tight_pools == ("host",)
    assert problem.infeasibility(np.array([0, 1, 2, 2])) == ""
    assert problem.infeasibility(np.array([0, 1, 1, 2])) == (
        "CPU and GPU would hold 600 B, above the limit of memory pool 'host', 500 B"
    )


def test_a_pool_that_holds_the_model_is_not_tight() -> None:
    roomy = replace(HOST[0], memory_bytes=1000)
    assert diamond_problem((roomy, *HOST[1:])).tight_pools == ()
    assert diamond_problem((HOST[0], HOST[2])).tight_pools == ()  # a pool of one device


def test_devices_of_a_pool_with_different_limits_are_refused() -> None:
    devices = [
        {"name": "CPU", "memory_pool": "host", "memory_bytes": 10},
        {"name": "GPU", "memory_pool": "host", "memory_bytes": 20},
    ]
    with pytest.raises(UserError, match=r"CPU and GPU share the memory pool 'host'.*state it once"):
        parse_devices(devices)
    stated_once = parse_devices([devices[0], {"name": "GPU", "memory_pool": "host"}])
    assert [spec.memory_pool for spec in stated_once] == ["host", "host"]
    assert DeviceSpec.from_json(stated_once[1].to_json()) == stated_once[1]


def test_fills_take_from_a_pool_what_is_left() -> None:
    cards = [DeviceSpec(f"GPU.{i}", memory_pool="cards", memory_bytes=500) for i in range(2)]
    problem = diamond_problem((DeviceSpec("CPU"), *cards))
    costs = diamond_costs(problem)
    cards_ms = np.where(costs.host, 9.0, [[0.0, 1.0, 2.0]] * 4)
    costs = replace(costs, operator_ms=cards_ms)
    assert fill_in_order(problem, costs).tolist() == [1, 1, 0, 0]


def test_devices_of_different_pools_are_not_interchangeable() -> None:
    devices = tuple(
        DeviceSpec(f"GPU.{i}", memory_pool=pool, memory_bytes=500)
        for i, pool in enumerate(("a", "a", "", ""))
    )
    problem = diamond_problem(devices)
    costs = diamond_costs(problem)
    costs = replace(costs, operator_ms=np.ones_like(costs.operator_ms), host=np.zeros(4, bool))
    assert interchangeable_devices(problem, costs) == [[0, 1], [2, 3]]


def test_a_penalty_counts_what_a_pool_holds_too_much() -> None:
    problem = diamond_problem(HOST)
    soft = replace(diamond_backend().semantics, memory_penalty_ms_per_gb=1e9)
    backend = SimulatedBackend(problem, diamond_costs(problem), soft)
    placement = np.array([0, 1, 1, 2])
    free_ms = backend.evaluate_ignoring_limits(placement).latency_ms
    assert backend.evaluate(placement).latency_ms == pytest.approx(free_ms + 100.0)
    assert backend.evaluate_batch_exactly(placement[None])[0][0] == pytest.approx(free_ms + 100.0)


def test_an_observation_tells_pools_and_their_room() -> None:
    env = DevicePlacementEnv(diamond_backend(diamond_problem(HOST)), observe_devices=True)
    observation, _ = env.reset(options={"placement": [0, 1, 2, 2]})
    space = env.observation_space["memory_pool"]  # type: ignore[index]
    assert space.read(observation["memory_pool"]).tolist() == [1, 1, 0]
    assert space.contains(observation["memory_pool"])
    assert observation["room"] == pytest.approx([0.2, 0.2, 0.3])


def key_of(devices: tuple[DeviceSpec, ...]) -> Any:
    problem = diamond_problem(devices)
    found = identify(SimulatedBackend(problem, diamond_costs(problem)))
    return found.key


def test_only_a_limited_pool_makes_another_problem() -> None:
    apart = tuple(replace(device, memory_pool="") for device in HOST)
    assert key_of(HOST) != key_of(apart)
    unlimited = tuple(replace(device, memory_bytes=None) for device in HOST)
    assert key_of(unlimited) == key_of(tuple(replace(d, memory_pool="") for d in unlimited))
