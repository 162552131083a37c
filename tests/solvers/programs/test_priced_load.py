"""Prices of units refute loads that no placement has, and no others: against brute force."""

from __future__ import annotations

from itertools import product
from time import perf_counter

import numpy as np
import pytest
from alike import draw_alike
from by_hand import find_least_ms
from published import DATA

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.hardware.device_requests import make_devices
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.problem.costs.workloads import Workload
from placement_gym.problem.problem import Problem
from placement_gym.solvers.bounds import load_ms, lower_bound
from placement_gym.solvers.programs.priced_load import CostliestSubset, Refuter, priced_load
from placement_gym.solvers.tasks import Tasks

LOAD = PRESETS["tarnawski-throughput"]
SOON = 10.0


@pytest.mark.parametrize("seed", range(12))
def test_a_load_that_a_placement_has_is_never_refuted(seed: int) -> None:
    backend = draw_alike(seed)
    least = find_least_ms(backend)
    refuter = Refuter(backend.problem, backend.costs)
    for share in (0.8, 1.0, 1.0 + 1e-6, 1.5, 1.0):
        if np.isfinite(least):
            assert not (refuter.refute(least * share, perf_counter() + SOON) and share >= 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_bound_is_between_divided_units_and_feasible_placements(seed: int) -> None:
    backend = draw_alike(seed)
    problem, costs = backend.problem, backend.costs
    least, simple = find_least_ms(backend), load_ms(problem, costs)
    if np.isfinite(least):
        for upper_ms in (least, np.inf):
            bound_ms = priced_load(problem, costs, SOON, simple, upper_ms)
            assert simple <= bound_ms <= least * (1 + 1e-6)


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_no_set_that_a_device_can_run_is_dearer(seed: int, limited: bool) -> None:
    backend = draw_alike(seed)
    problem, costs = backend.problem, backend.costs
    tasks, device = Tasks.of_units(problem.units, costs), len(problem.devices) - 1
    rng = np.random.default_rng(seed)
    prices = rng.dirichlet(np.ones(problem.n_units))
    most_ms = float(tasks.ms[:, device].sum()) * (0.5 if limited else 10.0)
    border_ms = costs.boundary_ms[tasks.tensor][:, device]
    costliest = CostliestSubset(problem, tasks, border_ms, device, most_ms)
    sets = np.array(list(product([False, True], repeat=problem.n_units)))
    fits = (sets @ problem.unit_bytes <= problem.limits_bytes[device]) & ~(
        sets & ~problem.supported[:, device]
    ).any(axis=1)
    light = np.array([costliest.load_ms(units) <= most_ms for units in sets])
    best = (sets[fits & light] @ prices).max()
    found = costliest.find(prices, perf_counter() + SOON)
    assert best - 1e-9 <= found.share <= best + 1e-3
    assert found.units @ prices == pytest.approx(best, abs=1e-3)


@pytest.mark.slow
def test_many_equal_devices_are_bounded_beyond_work_alone() -> None:
    path = DATA / "throughput-inputs/LayerGraphs/bert24_training.json"
    workload = Workload.load(path)
    devices, units = make_devices(1, 15, memory_bytes=workload.accelerator_bytes), workload.units()
    costs = workload.costs(devices)
    problem = Problem(units, devices, costs.units_supported(units), costs.memory_bytes)
    assert load_ms(problem, costs) < 14.5
    assert priced_load(problem, costs, 30.0, 15.5, upper_ms=16.754) > 16.2


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_a_pipeline_uses_prices_and_groups(seed: int) -> None:
    backend = draw_alike(seed)
    backend = SimulatedBackend(backend.problem, backend.costs, LOAD)
    least = find_least_ms(backend)
    bound = lower_bound(backend.problem, backend.costs, LOAD, SOON)
    assert bound.bound_ms == pytest.approx(least)
