"""Greedy filling for accelerators called like functions: the published values."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from by_hand import chain, cost_table, feasible_ms, grouped, problem_of
from published_workloads import published

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray
from placement_gym.graph import Units
from placement_gym.problem.costs import PRESETS
from placement_gym.solvers import greedy_fill
from placement_gym.solvers.pipelines import Forward

LATENCY = PRESETS["tarnawski-latency"]


def published_order(units: Units) -> IntArray:
    """(n_units,) units depth-first against the edges, later nodes first, as the publication."""
    forward = Forward.from_units(units)
    graph = nx.DiGraph()
    graph.add_nodes_from(reversed(range(len(forward))))
    graph.add_edges_from(sorted(forward.edge_index[::-1].T.tolist(), reverse=True))
    position = np.argsort(list(nx.dfs_postorder_nodes(graph)))
    return np.argsort(position[forward.node], kind="stable")


@pytest.mark.parametrize(
    ("name", "greedy_ms"),
    [
        ("LayerGraphs/bert24_inference", 100.219),
        ("OperatorGraphs/bert_l-3_inference", 416.204),
        ("OperatorGraphs/resnet50_inference", 839.536),
    ],
)
def test_greedy_filling_is_the_published_and_better_in_our_order(
    name: str, greedy_ms: float
) -> None:
    backend = published(f"latency-inputs/{name}", LATENCY)
    problem, costs = backend.problem, backend.costs
    theirs = greedy_fill(problem, costs, published_order(problem.units))
    assert feasible_ms(backend, theirs) == pytest.approx(greedy_ms, rel=1e-5)
    assert feasible_ms(backend, greedy_fill(problem, costs)) <= greedy_ms * (1 + 1e-5)


def test_unit_that_fits_nowhere_goes_where_most_room_is_left() -> None:
    units = grouped(chain(2))
    costs = cost_table(units.graph, np.ones((2, 3)), [0.0], host=[True, False, False])
    supported = np.array([[True, True, True], [True, False, False]])
    problem = problem_of(units, costs, np.array([10, 10]), supported, memory_bytes=[1, 1, 1])
    assert problem.supported[[0, 1], greedy_fill(problem, costs)].all()


def in_a_row(
    ms: list[list[float]], host: list[bool], limit_bytes: int | None = None
) -> SimulatedBackend:
    """Operators in a row, 5 ms between host and accelerator, 10 bytes each."""
    n, d = np.shape(ms)
    costs = cost_table(chain(n), ms, [5] * (n - 1), host=host)
    problem = problem_of(grouped(chain(n)), costs, np.full(n, 10), memory_bytes=[limit_bytes] * d)
    return SimulatedBackend(problem, costs, LATENCY)


def test_greedy_filling_asks_for_support_and_room_everywhere() -> None:
    backend = in_a_row([[9, 1, 1]] * 4, [True, False, False], limit_bytes=20)
    backend.problem.supported[0, 1] = False
    placed = greedy_fill(backend.problem, backend.costs)
    assert feasible_ms(backend, placed) > 0.0
    assert placed.tolist() == [0, 1, 1, 2]
