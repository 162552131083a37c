"""Coarsening: acyclic, exact in serial costs, within its bounds."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import grouped
from graphs import is_topological, op_graphs, problem_on
from hypothesis import given
from levels import random_places, random_problem, serial_ms

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import build_simulated_problem
from placement_gym.costs.analytic import analytic
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.units import merge_cycles
from placement_gym.problem import Problem
from placement_gym.solvers.levels.coarsen import LARGEST_SHARE, Hierarchy, coarsen

SIZES = pytest.mark.parametrize("n", [1, 2, 30, 300])


def coarse(seed: int, n: int) -> tuple[Hierarchy, object]:
    backend = random_problem(seed, n)
    return coarsen(backend.problem, backend.costs, np.random.default_rng(seed), 5), backend


@SIZES
@pytest.mark.parametrize("seed", range(10))
def test_clusters_of_every_level_are_acyclic_and_in_topological_order(seed: int, n: int) -> None:
    hierarchy, backend = coarse(seed, n)
    graph = backend.problem.units.graph
    for level in range(len(hierarchy.levels)):
        labels = hierarchy.of_units(level)
        ends = labels[graph.edge_index]
        assert is_topological(ends[:, ends[0] != ends[1]])
        assert len(np.unique(merge_cycles(graph, labels))) == len(np.unique(labels))


@given(graph=op_graphs(max_size=30))
def test_any_graph_stays_acyclic(graph: OpGraph) -> None:
    problem = problem_on(graph)
    hierarchy = coarsen(problem, analytic(graph, problem.devices), np.random.default_rng(0), 1)
    for level in range(len(hierarchy.levels)):
        ends = hierarchy.of_units(level)[graph.edge_index]
        assert is_topological(ends[:, ends[0] != ends[1]])


@SIZES
@pytest.mark.parametrize("seed", range(5))
def test_a_coarse_placement_costs_in_series_what_its_units_cost(seed: int, n: int) -> None:
    hierarchy, backend = coarse(seed, n)
    for at, level in enumerate(hierarchy.levels):
        for place in random_places(np.random.default_rng(seed), level.possible, 5):
            fine = place[hierarchy.of_units(at)]
            exact = backend.evaluate_ignoring_limits(fine).latency_ms
            assert serial_ms(level, place) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_clusters_keep_within_memory_and_support(seed: int) -> None:
    hierarchy, backend = coarse(seed, 300)
    problem = backend.problem
    for at, level in enumerate(hierarchy.levels[1:], 1):
        labels = hierarchy.of_units(at)
        single = np.bincount(labels) == 1
        held = np.bincount(labels, problem.unit_bytes)
        assert level.held.tolist() == held.tolist()
        assert (held[~single] <= LARGEST_SHARE * problem.limits_bytes.min()).all()
        assert (level.possible[labels] == problem.possible).all()


def test_it_stops_where_few_clusters_are_left_or_nothing_may_merge() -> None:
    hierarchy, _ = coarse(0, 300)
    sizes = [len(level.ms) for level in hierarchy.levels]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-2] > 5
    assert len(coarse(0, 1)[0].levels) == 1


def test_the_same_seed_coarsens_alike() -> None:
    first, second = (coarse(3, 300)[0] for _ in range(2))
    assert (first.of_units(3) == second.of_units(3)).all()


def test_units_that_depend_on_each_other_in_a_cycle_are_coarsened() -> None:
    backend = random_problem(0, 60)
    graph, rng = backend.problem.units.graph, np.random.default_rng(0)
    labels = np.concatenate([np.arange(40), rng.permutation(40)[:20]])
    units = grouped(graph, labels)
    supported = np.ones((40, 3), dtype=np.bool_)
    problem = Problem(units, backend.problem.devices, supported)
    assert len(np.unique(merge_cycles(graph, labels))) < 40
    hierarchy = coarsen(problem, backend.costs, rng, 10)
    assert len(hierarchy.levels[-1].ms) <= 20
    place = rng.integers(0, 3, len(hierarchy.levels[-1].ms))
    fine = place[hierarchy.of_units(len(hierarchy.levels) - 1)]
    exact = SimulatedBackend(problem, backend.costs).evaluate_ignoring_limits(fine)
    assert serial_ms(hierarchy.levels[-1], place) == pytest.approx(exact.latency_ms)


@pytest.mark.slow
def test_twenty_thousand_operators_are_coarsened_to_some_hundreds() -> None:
    twin = build_simulated_problem("synthetic-layered-20000", "cpu+2dgpu")
    hierarchy = coarsen(twin.problem, twin.costs, np.random.default_rng(0))
    assert len(hierarchy.levels[-1].ms) < 500
