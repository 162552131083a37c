"""The program of the largest load: values by hand, brute force, and the published optima."""

from __future__ import annotations

from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest
from by_hand import chain, cost_table, feasible_ms, feasible_placements, grouped, ints, problem_of
from pipelines import THROUGHPUT, draw_backend
from published_workloads import published

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray
from placement_gym.solvers.pipelines import Forward, linear_pipeline
from placement_gym.solvers.programs import max_load


def three_in_a_row() -> SimulatedBackend:
    """4, 9 and 4 ms on two equal accelerators; 1 ms to leave or enter them."""
    costs = cost_table(chain(3), [[4, 4], [9, 9], [4, 4]], [2, 2])
    return SimulatedBackend(problem_of(grouped(chain(3)), costs), costs, THROUGHPUT)


@pytest.mark.parametrize(("contiguous", "load_ms"), [(False, 11.0), (True, 14.0)])
def test_a_row_of_three_by_hand(contiguous: bool, load_ms: float) -> None:
    backend = three_in_a_row()
    found = max_load(backend.problem, backend.costs, None, contiguous=contiguous)
    assert found.proven
    assert found.bound_ms == pytest.approx(load_ms)
    assert feasible_ms(backend, found.assignment) == pytest.approx(load_ms)


def is_convex(backend: SimulatedBackend, assignment: IntArray) -> bool:
    """Whether no path of the forward graph leaves a device and returns to it."""
    forward = Forward.from_units(backend.problem.units)
    graph = nx.DiGraph(forward.edge_index.T.tolist())
    graph.add_nodes_from(range(len(forward)))
    if any(len(set(assignment[forward.node == v])) > 1 for v in graph):
        return False
    on = dict(zip(forward.node.tolist(), assignment.tolist(), strict=True))
    before, after = ({v: f(graph, v) for v in graph} for f in (nx.ancestors, nx.descendants))
    return not any(on[a] == on[b] != on[v] for v in graph for a, b in product(before[v], after[v]))


AXES: tuple[dict[str, Any], ...] = (
    {},
    {"limited": True},
    {"refused": 0.3},
    {"coloured": True},
    {"training": True},
)


@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_no_split_has_a_smaller_largest_load(seed: int, contiguous: bool) -> None:
    backend = draw_backend(seed, n=5, **AXES[seed % len(AXES)])
    places, loads = feasible_placements(backend)
    allowed = np.array([not contiguous or is_convex(backend, one) for one in places])
    start = places[allowed][0]
    for begin in (None, start):
        found = max_load(backend.problem, backend.costs, begin, contiguous=contiguous)
        assert found.proven
        assert found.bound_ms == pytest.approx(loads[allowed].min())
        assert feasible_ms(backend, found.assignment) == pytest.approx(loads[allowed].min())
        assert found.assignment is not None
        assert not contiguous or is_convex(backend, found.assignment)


def test_without_time_the_start_and_a_bound_are_returned() -> None:
    backend = three_in_a_row()
    found = max_load(backend.problem, backend.costs, ints([0, 1, 1]), 8.5, time_limit_s=0.0)
    assert found.assignment is not None
    assert 8.5 <= found.bound_ms <= 11.0


def test_what_fits_nowhere_has_no_placement() -> None:
    costs = cost_table(chain(2), np.ones((2, 2)), [0.0])
    problem = problem_of(grouped(chain(2)), costs, np.array([9, 9]), memory_bytes=[5, 5])
    found = max_load(problem, costs, None)
    assert (found.assignment, found.bound_ms, found.proven) == (None, np.inf, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "contiguous_ms", "least_ms"),
    [("bert_l-3_inference", 27.9186, 21.9084), ("bert_l-3_training", 65.3031, 54.2074)],
)
def test_published_operator_graphs_are_solved(
    name: str, contiguous_ms: float, least_ms: float
) -> None:
    backend = published(f"throughput-inputs/OperatorGraphs/{name}", THROUGHPUT)
    problem, costs = backend.problem, backend.costs
    start = linear_pipeline(problem, costs)
    for contiguous, known_ms in ((True, contiguous_ms), (False, least_ms)):
        found = max_load(problem, costs, start, 0.0, 120.0, contiguous)
        assert found.proven
        assert feasible_ms(backend, found.assignment) == pytest.approx(known_ms, rel=5e-6)
