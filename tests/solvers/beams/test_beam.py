"""Beams: bounds lie below every placement, and wide beams find the fastest one."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import feasible_ms, find_least_ms
from overlapping import OVERLAPPING, diamonds, drawn, solve_by_beams, with_idle_operators
from published_workloads import published

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.problem.costs import Semantics
from placement_gym.solvers.beams import Beam

EXACT = 1.0 + 1e-6
LISTS = OVERLAPPING[:2]


@pytest.mark.parametrize("semantics", OVERLAPPING)
@pytest.mark.parametrize("seed", range(6))
def test_no_placement_is_below_the_bound(seed: int, semantics: Semantics) -> None:
    backend = drawn(seed, semantics)
    if seed % 4 > 1:
        backend = with_idle_operators(backend, seed)
    least = find_least_ms(backend)
    for widths in ((1,), (3, 6), (10_000,)):
        found = solve_by_beams(backend, widths=widths)
        assert found.bound_ms <= least * EXACT


@pytest.mark.parametrize("semantics", LISTS)
@pytest.mark.parametrize("seed", range(15))
def test_wide_beam_proves_the_fastest_placement_of_a_list(seed: int, semantics: Semantics) -> None:
    backend = drawn(seed, semantics)
    found = solve_by_beams(backend, widths=(10_000,))
    assert found.proven
    figures = [feasible_ms(backend, found.assignment), found.bound_ms]
    assert figures == pytest.approx([find_least_ms(backend)] * 2)


@pytest.mark.parametrize("share", [0.9, 1.0, 1.1])
def test_only_lower_latencies_than_a_known_one_are_searched(share: float) -> None:
    backend = drawn(4, LISTS[0])
    least = find_least_ms(backend)
    found = solve_by_beams(backend, upper_ms=least * share)
    assert found.bound_ms == pytest.approx(min(least, least * share))
    assert (found.assignment is None) == (share < 1.05)


def test_without_time_there_is_a_bound_still() -> None:
    backend = drawn(5, LISTS[0])
    found = solve_by_beams(backend, time_limit_s=0.0)
    assert 0.0 <= found.bound_ms <= find_least_ms(backend) * EXACT


@pytest.mark.parametrize("merged", [1e-3, 0.05])
@pytest.mark.parametrize("seed", range(15))
def test_merged_placements_keep_the_bound_below_all(seed: int, merged: float) -> None:
    backend = drawn(seed, LISTS[seed % 2])
    least = find_least_ms(backend)
    beam = Beam(backend.problem, backend.costs, LISTS[seed % 2], np.inf, merged)
    for width in (5, 10_000):
        found = beam.search(width, np.inf, np.inf)
        assert 0.5 * least <= found.bound_ms <= least * EXACT


@pytest.mark.parametrize("seed", range(12))
def test_merged_placements_of_diamonds_keep_the_bound_below_all(seed: int) -> None:
    backend = diamonds(seed)
    least = find_least_ms(backend)
    beam = Beam(backend.problem, backend.costs, backend.semantics, np.inf, 1e-3 * (seed % 3))
    for width in (2, 4, 12):
        assert beam.search(width, np.inf, np.inf).bound_ms <= least * EXACT
        assert beam.search(width, least * 1.02, np.inf).bound_ms <= least * EXACT


def resnet50(graphs: str) -> SimulatedBackend:
    name = f"latency-inputs/{graphs}/resnet50_inference"
    return published(name, LISTS[1], "1cpu+1acc@0.5", "op")


@pytest.mark.slow
def test_a_published_workload_is_solved_in_moments() -> None:
    backend = resnet50("LayerGraphs")
    found = solve_by_beams(backend, widths=(1_000,))
    assert found.proven
    assert feasible_ms(backend, found.assignment) == pytest.approx(found.bound_ms)
    assert found.bound_ms == pytest.approx(853.270, rel=1e-5)


def test_few_tasks_are_live_at_a_time_in_operator_graphs() -> None:
    backend = resnet50("OperatorGraphs")
    beam = Beam(backend.problem, backend.costs, LISTS[1], np.inf)
    assert beam.searchable
    assert beam.frontier.n_slots <= 5
