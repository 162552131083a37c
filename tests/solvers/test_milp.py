"""The serial MILP against brute force, with limits, support and several devices."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from by_hand import (
    chain,
    cost_table,
    feasible_ms,
    find_least_ms,
    grouped,
    made_graph,
    problem_of,
    random_backend,
)

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.solvers import serial_program


@pytest.mark.parametrize("submodel_ms", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("seed", range(20))
def test_program_proves_the_fastest_feasible_placement(seed: int, submodel_ms: float) -> None:
    check(random_backend(seed, submodel_ms))


@pytest.mark.slow
@pytest.mark.parametrize("submodel_ms", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(500))
def test_the_program_is_right_on_five_hundred_graphs(seed: int, submodel_ms: float) -> None:
    check(random_backend(10_000 + seed, submodel_ms, most=14))


def check(backend: SimulatedBackend) -> None:
    """The program's placement is the fastest of all, and its bound says so."""
    found = serial_program(backend.problem, backend.costs)
    figures = [feasible_ms(backend, found.assignment), found.bound_ms]
    assert figures == pytest.approx([find_least_ms(backend)] * 2, rel=1e-6)
    assert found.proven


def test_problem_that_fits_nowhere_has_an_infinite_bound() -> None:
    backend = random_backend(3)
    units, costs = backend.problem.units, backend.costs
    none = [0] * len(costs.devices)
    tight = problem_of(units, costs, np.full(len(units.graph), 10), memory_bytes=none)
    solution = serial_program(tight, costs)
    assert (solution.assignment, solution.bound_ms, solution.proven) == (None, np.inf, False)


@pytest.mark.parametrize(("limit", "alone"), [(0, True), (10**9 + 5, False)])
def test_limits_hold_to_the_byte(limit: int, alone: bool) -> None:
    units = grouped(made_graph(3, []))
    costs = cost_table(units.graph, [[9, 1], [9, 1], [9, 9]], [])
    problem = problem_of(units, costs, np.array([10, 10, 10**9]), memory_bytes=[None, limit])
    solution = serial_program(problem, costs)
    assert feasible_ms(SimulatedBackend(problem, costs), solution.assignment) > 0.0
    assert solution.proven
    assert not alone or solution.assignment.tolist() == [0, 0, 0]


def test_root_within_the_gap_ends_a_program_with_submodel_costs() -> None:
    backend = random_backend(3, 0.01, most=14)
    started = perf_counter()
    found = serial_program(backend.problem, backend.costs, 60.0, gap=0.5, max_nodes=1)
    assert found.assignment is not None
    assert perf_counter() - started < 30.0


def test_placements_that_fit_but_for_rounding_stay_in_the_limit() -> None:
    graph = chain(60)
    held = np.array([10**9, *[15] * 59])
    costs = cost_table(graph, np.tile([1.0, 100.0], (60, 1)), np.zeros(59))
    problem = problem_of(grouped(graph), costs, held, memory_bytes=[10**9 + 5, None])
    started = perf_counter()
    found = serial_program(problem, costs, time_limit_s=1.0)
    assert perf_counter() - started < 30.0
    assert found.assignment is None or not problem.infeasibility(found.assignment)
