# White-box tests of solvers.programs
"""The program of the largest load bounds every placement and is exact: against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from alike import draw_alike
from by_hand import feasible_ms, feasible_placements, find_least_ms, random_backend
from published_workloads import published

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.problem.costs import PRESETS
from placement_gym.solvers import interchangeable_devices, load_ms, lower_bound, minimize
from placement_gym.solvers.programs import max_load
from placement_gym.solvers.programs.largest_load import build_program, least_loads_of_kinds

LOAD = PRESETS["tarnawski-throughput"]


@pytest.mark.parametrize("seed", range(20))
def test_the_program_is_exact_and_not_below_divided_units(seed: int) -> None:
    backend = draw_alike(seed)
    problem, costs = backend.problem, backend.costs
    kinds = interchangeable_devices(problem, costs)
    least_ms = least_loads_of_kinds(problem, costs, kinds, np.inf if seed % 2 else 0.0)
    found = minimize(build_program(problem, costs, kinds, 0.0, np.inf, least_ms)[0])
    assert found.bound == pytest.approx(find_least_ms(backend))
    assert found.bound >= load_ms(problem, costs) * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_load_of_the_placement_is_the_proven_one(seed: int) -> None:
    backend = draw_alike(seed) if seed % 2 else random_backend(seed)
    backend = SimulatedBackend(backend.problem, backend.costs, LOAD)
    least = find_least_ms(backend)
    found = max_load(backend.problem, backend.costs, None)
    assert found.bound_ms == pytest.approx(least)
    if np.isfinite(least):
        assert found.proven
        assert feasible_ms(backend, found.assignment) == pytest.approx(least)


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_a_pipeline_is_its_optimum(seed: int) -> None:
    backend = draw_alike(seed)
    backend = SimulatedBackend(backend.problem, backend.costs, LOAD)
    bound = lower_bound(backend.problem, backend.costs, LOAD)
    assert bound.bound_ms == pytest.approx(find_least_ms(backend))


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_the_bound_does_not_exceed_a_known_load(share: float) -> None:
    backend = draw_alike(1)
    least = find_least_ms(backend)
    found = lower_bound(backend.problem, backend.costs, LOAD, upper_ms=least * share)
    assert found.bound_ms == pytest.approx(min(least, least * share))
    assert not found.proven


def test_the_bound_of_a_published_pipeline_is_its_optimum() -> None:
    backend = published("throughput-inputs/OperatorGraphs/bert_l-3_inference", LOAD)
    found = lower_bound(backend.problem, backend.costs, LOAD, 30.0)
    assert found.bound_ms >= 21.9


@pytest.mark.parametrize("seed", range(12))
def test_no_device_with_a_unit_has_less_than_its_least_load(seed: int) -> None:
    backend = draw_alike(seed)
    problem, costs = backend.problem, backend.costs
    kinds = interchangeable_devices(problem, costs)
    least_ms = least_loads_of_kinds(problem, costs, kinds, np.inf)
    every, latency_ms = feasible_placements(backend)
    kind = np.array(
        [next(k for k, g in enumerate(kinds) if d in g) for d in range(len(costs.devices))]
    )
    needed = least_ms[np.arange(problem.n_units), kind[every]].max(axis=1)
    assert (needed <= latency_ms * (1 + 1e-6)).all()
