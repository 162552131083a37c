"""BIDENT's shortest path: exact for chains, and what it costs on graphs with branches."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import (
    chain,
    cost_table,
    draw_made,
    feasible_ms,
    find_least_ms,
    grouped,
    made_graph,
    problem_of,
    random_backend,
)

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.solvers.shortest_path import live_transfers_ms, shortest_path
from placement_gym.solvers.tasks import Tasks


def drawn_chain(seed: int) -> SimulatedBackend:
    """Seven operators on three devices, of which the last two lack some operators."""
    rng = np.random.default_rng(seed)
    links = {"link_ms": rng.random((3, 3)), "link_ms_per_size": rng.random((3, 3))}
    costs = cost_table(
        chain(7), rng.random((7, 3)) * 9, rng.random(6), submodel_ms=rng.random(3), **links
    )
    supported = rng.random((7, 3)) < 0.8
    supported[:, 0] = True
    return SimulatedBackend(problem_of(grouped(chain(7)), costs, supported=supported), costs)


@pytest.mark.parametrize("seed", range(10))
def test_the_path_is_the_optimum_of_a_chain(seed: int) -> None:
    backend = drawn_chain(seed)
    found = feasible_ms(backend, shortest_path(backend.problem, backend.costs))
    assert found == pytest.approx(find_least_ms(backend))


def test_every_tensor_is_live_from_its_maker_to_its_last_reader() -> None:
    graph = made_graph(4, [(0, [1, 3]), (1, [2]), (2, [3])])
    costs = cost_table(graph, np.ones((4, 2)), [5, 1, 2])
    assert live_transfers_ms(Tasks.of_units(grouped(graph), costs))[:, 0, 1].tolist() == [5, 6, 7]


def test_a_tensor_that_passes_by_is_paid_for_though_it_need_not_move() -> None:
    """The middle gains 4 ms elsewhere, for 2 ms of transfers; a path sees 10 ms more, and stays."""
    graph = made_graph(3, [(0, [1, 2]), (0, [2]), (1, [2])])
    costs = cost_table(graph, [[1, 9], [5, 1], [1, 9]], [1, 5, 1])
    backend = SimulatedBackend(problem_of(grouped(graph), costs), costs)
    assert shortest_path(backend.problem, costs).tolist() == [0, 0, 0]
    assert find_least_ms(backend) == 5.0


@pytest.mark.parametrize("seed", range(10))
def test_a_path_is_never_slower_than_one_device(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = made_graph(20, draw_made(rng, 20, share=0.2))
    costs = cost_table(graph, rng.random((20, 3)), rng.random(len(graph.tensors.source)))
    backend = SimulatedBackend(problem_of(grouped(graph), costs), costs)
    found = feasible_ms(backend, shortest_path(backend.problem, costs))
    assert found <= min(feasible_ms(backend, backend.problem.single(d)) for d in range(3)) + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_limits_and_support_are_kept(seed: int) -> None:
    backend = random_backend(seed, submodel_ms=0.5)
    assert backend.problem.infeasibility(shortest_path(backend.problem, backend.costs)) == ""
