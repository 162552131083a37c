"""The grouped program lies below every placement's load, and is exact where groups are single."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from by_hand import grouped, made_graph, random_backend
from published import DATA

from placement_gym.arrays import FloatArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import PRESETS
from placement_gym.costs.workloads import Workload, make_devices
from placement_gym.problem import Problem
from placement_gym.solvers.bounds import load_ms
from placement_gym.solvers.kinds import interchangeable_devices
from placement_gym.solvers.minimize import minimize
from placement_gym.solvers.programs.grouped_load import (
    build_program,
    first_groups,
    grouped_load,
    least_loads_of_kinds,
    split_largest,
)

LOAD = PRESETS["tarnawski-throughput"]


def alike(seed: int) -> SimulatedBackend:
    """A few units in colour classes, one or two cores and two or three equal accelerators."""
    rng = np.random.default_rng(seed)
    n, cores, accelerators = int(rng.integers(3, 7)), int(rng.integers(1, 3)), 2 + seed % 2
    made = [(a, np.flatnonzero(rng.random(n) < 0.5)) for a in range(n)]
    tensors = [(a, readers[readers > a].tolist()) for a, readers in made]
    graph = made_graph(n, [(a, readers) for a, readers in tensors if readers])
    workload = Workload(
        graph,
        np.arange(n),
        host_ms=rng.random(n) * 9,
        accelerator_ms=rng.random(n) * 3,
        supported=rng.random(n) < 0.9,
        transfer_ms=rng.random(len(graph.tensors.source)),
        n_accelerators=accelerators,
        accelerator_bytes=0,
    )
    devices = make_devices(cores, accelerators, weight_share=float(rng.choice([0.3, 0.5, 1.0])))
    units = grouped(graph, np.unique(rng.integers(0, n, n), return_inverse=True)[1])
    costs = workload.costs(devices)
    held = rng.integers(0, 100, n)
    return SimulatedBackend(
        Problem(units, devices, costs.units_supported(units), held), costs, LOAD
    )


def all_loads(backend: SimulatedBackend) -> FloatArray:
    problem = backend.problem
    every = np.array(list(product(range(len(problem.devices)), repeat=problem.n_units)))
    latency_ms, feasible = backend.evaluate_batch_exactly(every)
    return latency_ms[feasible]


@pytest.mark.parametrize("seed", range(40))
def test_every_division_into_groups_lies_below_all_loads(seed: int) -> None:
    backend = alike(seed)
    problem, costs = backend.problem, backend.costs
    least = all_loads(backend).min(initial=np.inf)
    groups = first_groups(problem, costs)
    least_ms = least_loads_of_kinds(problem, costs, groups, np.inf) if seed % 2 else None
    while True:
        found = minimize(build_program(problem, costs, groups, 0.0, np.inf, least_ms)[0])
        assert found.bound <= least * (1 + 1e-6)
        assert found.bound >= load_ms(problem, costs) * (1 - 1e-6)
        if max(len(group.devices) for group in groups) == 1:
            assert found.bound == pytest.approx(least)
            return
        groups = split_largest(groups)


@pytest.mark.parametrize("seed", range(40))
def test_the_load_of_the_placement_is_the_proven_one(seed: int) -> None:
    backend = alike(seed) if seed % 2 else random_backend(seed)
    backend = SimulatedBackend(backend.problem, backend.costs, LOAD)
    least = all_loads(backend).min(initial=np.inf)
    found = grouped_load(backend.problem, backend.costs)
    assert found.bound_ms == pytest.approx(least)
    if np.isfinite(least):
        assert found.proven
        assert found.assignment is not None
        assert not backend.problem.infeasibility(found.assignment)
        assert backend.evaluate(found.assignment).latency_ms == pytest.approx(least)


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_a_known_load_limits_the_bound_and_the_search(share: float) -> None:
    backend = alike(1)
    least = all_loads(backend).min()
    found = grouped_load(backend.problem, backend.costs, upper_ms=least * share)
    assert found.bound_ms == pytest.approx(min(least, least * share))


def test_the_bound_of_a_published_pipeline_is_its_optimum() -> None:
    path = DATA / "throughput-inputs/OperatorGraphs/bert_l-3_inference.json"
    workload = Workload.load(path)
    devices, units = workload.devices(), workload.units()
    costs = workload.costs(devices)
    problem = Problem(units, devices, costs.units_supported(units), costs.memory_bytes)
    found = grouped_load(problem, costs, 30.0, upper_ms=21.9076)
    assert found.bound_ms >= 21.9


@pytest.mark.parametrize("seed", range(12))
def test_no_device_with_a_unit_has_less_than_its_least_load(seed: int) -> None:
    backend = alike(seed)
    problem, costs = backend.problem, backend.costs
    least_ms = least_loads_of_kinds(problem, costs, first_groups(problem, costs), np.inf)
    every = np.array(list(product(range(len(problem.devices)), repeat=problem.n_units)))
    latency_ms, feasible = backend.evaluate_batch_exactly(every)
    kinds = interchangeable_devices(problem, costs)
    kind = np.array(
        [next(k for k, g in enumerate(kinds) if d in g) for d in range(len(costs.devices))]
    )
    needed = least_ms[np.arange(problem.n_units), kind[every]].max(axis=1)
    assert (needed[feasible] <= latency_ms[feasible] * (1 + 1e-6)).all()
