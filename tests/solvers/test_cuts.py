"""The minimum cut against brute force, and the headroom of ``hsdag-paper``."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import cost_table, draw_made, feasible_ms, find_least_ms, made_graph, problem_of
from graphs import simulate

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.graph import group
from placement_gym.solvers import minimum_cut

HEADROOM = {"inception": (12.5, 20.0), "resnet": (2.0, 8.0), "bert-8": (4.0, 8.0)}


def random_backend(seed: int, most: int = 9) -> SimulatedBackend:
    """A few operators on two devices, some with two tensors and many readers."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most + 1))
    graph = made_graph(n, draw_made(rng, n, each=2))
    units = group(graph, "op" if seed % 2 else "colocated")
    n_tensors = len(graph.tensors.source)
    costs = cost_table(
        graph,
        rng.integers(0, 10, (n, 2)) + rng.random((n, 2)),
        rng.integers(1, 9, n_tensors),
        link_ms=rng.random((2, 2)),
        link_ms_per_size=rng.random((2, 2)),
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


def test_three_devices_are_refused() -> None:
    backend = simulate("tiny", devices="cpu+2dgpu")
    with pytest.raises(ValueError, match="two devices, not 3"):
        minimum_cut(backend.problem.units, backend.costs)


@pytest.mark.parametrize("model", list(HEADROOM))
def test_the_paper_preset_has_the_published_headroom(model: str) -> None:
    backend = simulate(model, devices="hsdag-paper")
    optimum = feasible_ms(backend, minimum_cut(backend.problem.units, backend.costs).assignment)
    best_single = min(feasible_ms(backend, backend.problem.single(d)) for d in range(2))
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
