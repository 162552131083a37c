"""The grouped program lies below every placement's load, and is exact where groups are single."""

from __future__ import annotations

import numpy as np
import pytest
from alike import draw_alike
from by_hand import feasible_ms, feasible_placements, find_least_ms, random_backend
from published import published

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.solvers.bounds import load_ms
from placement_gym.solvers.highs import minimize
from placement_gym.solvers.kinds import interchangeable_devices
from placement_gym.solvers.programs.grouped_load import (
    build_program,
    first_groups,
    grouped_load,
    least_loads_of_kinds,
    split_largest,
)

LOAD = PRESETS["tarnawski-throughput"]


@pytest.mark.parametrize("seed", range(20))
def test_every_division_into_groups_lies_below_all_loads(seed: int) -> None:
    backend = draw_alike(seed)
    problem, costs = backend.problem, backend.costs
    least = find_least_ms(backend)
    groups = first_groups(problem, costs)
    least_ms = least_loads_of_kinds(problem, costs, groups, np.inf if seed % 2 else 0.0)
    while True:
        found = minimize(build_program(problem, costs, groups, 0.0, np.inf, least_ms)[0])
        assert found.bound <= least * (1 + 1e-6)
        assert found.bound >= load_ms(problem, costs) * (1 - 1e-6)
        if max(len(group.devices) for group in groups) == 1:
            assert found.bound == pytest.approx(least)
            return
        groups = split_largest(groups)


@pytest.mark.parametrize("seed", range(20))
def test_the_load_of_the_placement_is_the_proven_one(seed: int) -> None:
    backend = draw_alike(seed) if seed % 2 else random_backend(seed)
    backend = SimulatedBackend(backend.problem, backend.costs, LOAD)
    least = find_least_ms(backend)
    found = grouped_load(backend.problem, backend.costs)
    assert found.bound_ms == pytest.approx(least)
    if np.isfinite(least):
        assert found.proven
        assert feasible_ms(backend, found.assignment) == pytest.approx(least)


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_a_known_load_limits_the_bound_and_the_search(share: float) -> None:
    backend = draw_alike(1)
    least = find_least_ms(backend)
    found = grouped_load(backend.problem, backend.costs, upper_ms=least * share)
    assert found.bound_ms == pytest.approx(min(least, least * share))


def test_the_bound_of_a_published_pipeline_is_its_optimum() -> None:
    backend = published("throughput-inputs/OperatorGraphs/bert_l-3_inference", LOAD)
    found = grouped_load(backend.problem, backend.costs, 30.0, upper_ms=21.9076)
    assert found.bound_ms >= 21.9


@pytest.mark.parametrize("seed", range(12))
def test_no_device_with_a_unit_has_less_than_its_least_load(seed: int) -> None:
    backend = draw_alike(seed)
    problem, costs = backend.problem, backend.costs
    least_ms = least_loads_of_kinds(problem, costs, first_groups(problem, costs), np.inf)
    every, latency_ms = feasible_placements(backend)
    kinds = interchangeable_devices(problem, costs)
    kind = np.array(
        [next(k for k, g in enumerate(kinds) if d in g) for d in range(len(costs.devices))]
    )
    needed = least_ms[np.arange(problem.n_units), kind[every]].max(axis=1)
    assert (needed <= latency_ms * (1 + 1e-6)).all()
