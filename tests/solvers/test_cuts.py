"""The minimum cut against brute force, and the headroom of ``hsdag-paper``."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from by_hand import cost_table, draw_made, feasible_ms, find_least_ms, made_graph, problem_of

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import build_simulated_problem
from placement_gym.graph.units import group
from placement_gym.models.spec import ModelSpec
from placement_gym.solvers.cuts import alpha_expansion, expand, minimum_cut
from placement_gym.solvers.tasks import Tasks

HEADROOM = {"inception": (12.5, 20.0), "resnet": (2.0, 8.0), "bert-8": (4.0, 8.0)}


def random_backend(
    seed: int, n_devices: int = 2, alike: bool = False, most: int = 9
) -> SimulatedBackend:
    """A few operators, some with two tensors and many readers.

    ``alike``: a tensor costs the same between any two devices.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most + 1))
    graph = made_graph(n, draw_made(rng, n, each=2))
    units = group(graph, "op" if seed % 2 else "colocated")
    n_tensors = len(graph.tensors.source)
    costs = cost_table(
        graph,
        rng.integers(0, 10, (n, n_devices)) + rng.random((n, n_devices)),
        rng.integers(1, 9, n_tensors),
        link_ms=0.3 if alike else rng.random((n_devices, n_devices)),
        link_ms_per_size=0.7 if alike else rng.random((n_devices, n_devices)),
    )
    return SimulatedBackend(problem_of(units, costs), costs)


@pytest.mark.parametrize("seed", range(60))
def test_no_placement_is_faster_than_the_minimum_cut(seed: int) -> None:
    check(random_backend(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500))
def test_minimum_cut_is_fastest_on_five_hundred_graphs(seed: int) -> None:
    check(random_backend(10_000 + seed, most=14))


def check(backend: SimulatedBackend) -> None:
    found = minimum_cut(backend.problem.units, backend.costs)
    fastest = find_least_ms(backend)
    assert feasible_ms(backend, found.assignment) == pytest.approx(fastest, rel=1e-6)
    assert fastest * (1 - 1e-6) <= found.bound_ms <= fastest


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_expansion_improves_on_simple_starts(seed: int, alike: bool) -> None:
    backend = random_backend(seed, 3, alike)
    problem, costs = backend.problem, backend.costs
    latency_ms = feasible_ms(backend, alpha_expansion(problem.units, costs))
    starts = [costs.unit_ms(problem.units).argmin(axis=1), *map(problem.single, range(3))]
    assert latency_ms <= min(feasible_ms(backend, start) for start in starts) * (1 + 1e-9)
    assert latency_ms <= 1.3 * find_least_ms(backend)


def test_expansions_find_the_optimum_of_most_small_graphs() -> None:
    backends = [random_backend(seed, 3, alike=True) for seed in range(60)]
    found = [feasible_ms(b, alpha_expansion(b.problem.units, b.costs)) for b in backends]
    assert np.mean(np.array(found) < (1 + 1e-6) * np.array([*map(find_least_ms, backends)])) > 0.8


@pytest.mark.parametrize("seed", range(20))
def test_an_expansion_is_the_best_of_all_subsets(seed: int) -> None:
    backend = random_backend(seed, 3, alike=True, most=7)
    tasks = Tasks.of_operators(backend.problem.units, backend.costs)
    rng = np.random.default_rng(seed)
    start, alpha = rng.integers(0, 3, len(tasks)), int(rng.integers(3))
    subsets = product((False, True), repeat=len(tasks))
    least_ms = min(tasks.serial_ms(np.where(moves, alpha, start)) for moves in subsets)
    assert tasks.serial_ms(expand(tasks, start, alpha)) == pytest.approx(least_ms, rel=1e-6)


def test_expansion_on_two_devices_is_the_minimum_cut() -> None:
    for backend in map(random_backend, range(30)):
        expanded = alpha_expansion(backend.problem.units, backend.costs)
        assert feasible_ms(backend, expanded) == pytest.approx(find_least_ms(backend), rel=1e-6)


def test_three_devices_are_refused() -> None:
    twin = build_simulated_problem(ModelSpec("tiny"), "cpu+2dgpu")
    with pytest.raises(ValueError, match="two devices, not 3"):
        minimum_cut(twin.problem.units, twin.costs)


@pytest.mark.parametrize("model", list(HEADROOM))
def test_the_paper_preset_has_the_published_headroom(model: str) -> None:
    twin = build_simulated_problem(ModelSpec(model), "hsdag-paper")
    backend = SimulatedBackend(twin.problem, twin.costs)
    optimum = feasible_ms(backend, minimum_cut(twin.problem.units, twin.costs).assignment)
    best_single = min(feasible_ms(backend, twin.problem.single(d)) for d in range(2))
    lowest, highest = HEADROOM[model]
    assert lowest <= 100 * (1 - optimum / best_single) <= highest


def test_costs_far_above_the_result_do_not_spoil_its_bound() -> None:
    graph = made_graph(3, [(0, [2]), (1, [2])])
    costs = cost_table(graph, [[0.001, 1e9], [1e9, 0.001], [0.4, 0.001]], [0.001, 0.001])
    found = minimum_cut(group(graph, "op"), costs)
    assert found.assignment.tolist() == [0, 1, 1]
    assert found.proven
    assert found.bound_ms == pytest.approx(0.004, rel=1e-4)


def test_a_device_on_which_all_is_free_takes_it_all() -> None:
    graph = made_graph(2, [(0, [1])])
    found = minimum_cut(group(graph, "op"), cost_table(graph, [[0, 0.4], [0, 0.3]], [1]))
    assert (found.assignment.tolist(), found.bound_ms, found.proven) == ([0, 0], 0.0, True)
