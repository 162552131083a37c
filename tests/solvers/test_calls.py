"""Accelerators called like functions: the published values, and brute force on small graphs."""

from __future__ import annotations

from itertools import product

import networkx as nx
import numpy as np
import pytest
from by_hand import (
    chain,
    cost_table,
    draw_labels,
    draw_made,
    feasible_ms,
    feasible_placements,
    grouped,
    ints,
    made_graph,
    problem_of,
)
from published import published
from scales import count_calls

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import IntArray
from placement_gym.graph.units import Units
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.solvers.bounds import call_tasks
from placement_gym.solvers.calls import build_call_program, call_program, greedy_fill
from placement_gym.solvers.highs import minimize
from placement_gym.solvers.pipelines.forward import Forward

LATENCY = PRESETS["tarnawski-latency"]


def published_order(units: Units) -> IntArray:
    """(n_units,) units depth-first against the edges, later nodes first, as the publication."""
    forward = Forward.of(units)
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


@pytest.mark.slow
def test_the_greedy_placement_of_bert24_is_proven_to_be_optimal() -> None:
    backend = published("latency-inputs/LayerGraphs/bert24_inference", LATENCY)
    problem, costs = backend.problem, backend.costs
    solution = call_program(problem, costs, greedy_fill(problem, costs), backend.schedule, 120.0)
    latency_ms = feasible_ms(backend, solution.assignment)
    assert latency_ms == pytest.approx(100.2184, rel=2e-6)
    assert solution.proven
    assert solution.bound_ms == pytest.approx(latency_ms, rel=1e-4)


def random_backend(seed: int, whole: bool = False, most: int = 6) -> SimulatedBackend:
    """Up to ``most`` operators on a host and two accelerators with little memory.

    ``whole``: in units of any of them.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most + 1))
    graph = made_graph(n, draw_made(rng, n))
    costs = cost_table(
        graph,
        rng.integers(1, 9, (n, 3)) * np.array([3.0, 1.0, 1.0]),
        rng.random(len(graph.tensors.source)),
        host=[True, False, False],
    )
    labels = draw_labels(rng, n) if whole else np.arange(n)
    held, limits = rng.integers(0, 100, n), [None, 0.6, 0.6]
    problem = problem_of(grouped(graph, labels), costs, held, weight_share=limits)
    return SimulatedBackend(problem, costs, LATENCY)


def two_calls_ms(backend: SimulatedBackend, called: tuple[int, ...]) -> float:
    """Latency if each task is in a call, 1 and 2 of the first accelerator, 3 and 4 of the second.

    Tasks of call 0 run on the host. Infinite if calls wait for each other.
    """
    tasks, graph = call_tasks(backend.problem, backend.costs), nx.DiGraph([(1, 2), (3, 4)])
    tensor, maker, reader = tasks.readings
    job = [-v if call == 0 else call for v, call in enumerate(called)]
    device = [(call + 1) // 2 for call in called]
    ms = dict.fromkeys({*job, *range(1, 5)}, 0.0)
    for v, here in enumerate(job):
        ms[here] += tasks.ms[v, device[v]]
    paid = set()
    for t, u, v in zip(tasks.tensor[tensor], maker, reader, strict=True):
        if job[u] != job[v]:
            graph.add_edge(job[u], job[v])
            paid |= {(t, job[u], device[u]), (t, job[v], device[v])}
    for t, here, on in paid:
        ms[here] += backend.costs.boundary_ms[t, on]
    graph.add_nodes_from(ms)
    if not nx.is_directed_acyclic_graph(graph):
        return np.inf
    end: dict[int, float] = {}
    for here in nx.topological_sort(graph):
        end[here] = ms[here] + max((end[one] for one in graph.predecessors(here)), default=0.0)
    return max(end.values())


@pytest.mark.parametrize("seed", range(12))
def test_program_of_two_calls_is_the_least_of_all_divisions_into_calls(seed: int) -> None:
    backend = random_backend(seed, most=4)
    problem, costs = backend.problem, backend.costs
    least_ms = np.inf
    for called in product(range(5), repeat=problem.n_units):
        on = (ints(called) + 1) // 2
        if not problem.infeasibility(on):
            least_ms = min(least_ms, two_calls_ms(backend, called))
    tasks = call_tasks(problem, costs)
    program, _, calling = build_call_program(problem, costs, tasks, 1e3, n_calls=2)
    assert calling.shape == (problem.n_units, 2, 2)
    assert minimize(program).objective == pytest.approx(least_ms)


@pytest.mark.parametrize("seed", range(10))
def test_two_calls_are_bounded_and_never_worse_than_one(seed: int) -> None:
    backend = random_backend(seed)
    problem, costs = backend.problem, backend.costs
    places, latency_ms = feasible_placements(backend)
    fastest = latency_ms[[count_calls(backend, one) <= 2 for one in places]].min()
    one = call_program(problem, costs, problem.single(0), backend.schedule, 20.0)
    assert one.assignment is not None
    two = call_program(problem, costs, one.assignment, backend.schedule, 20.0, n_calls=2)
    assert two.bound_ms <= fastest * (1 + 1e-6)
    assert feasible_ms(backend, two.assignment) <= feasible_ms(backend, one.assignment)


def test_a_second_call_by_hand() -> None:
    """Only the host runs the middle one of a row: 2 + 4 + 2 ms, and 0.5 ms for each passage."""
    costs = cost_table(chain(3), [[9, 2], [4, 4], [9, 2]], [0.5, 0.5], host=[True, False])
    supported = np.array([[True, True], [True, False], [True, True]])
    problem = problem_of(grouped(chain(3)), costs, supported=supported)
    backend = SimulatedBackend(problem, costs, LATENCY)
    for n_calls, placed, latency_ms in ((1, [[0, 0, 1], [1, 0, 0]], 15.5), (2, [[1, 0, 1]], 9.0)):
        start = problem.single(0)
        found = call_program(problem, costs, start, backend.schedule, 20.0, n_calls)
        assert found.assignment is not None
        assert found.assignment.tolist() in placed
        assert found.bound_ms == pytest.approx(latency_ms)
        assert found.proven


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_program_finds_the_fastest_of_one_call_each(seed: int, whole: bool) -> None:
    backend = random_backend(seed, whole)
    problem = backend.problem
    places, latency_ms = feasible_placements(backend)
    fastest = latency_ms[[count_calls(backend, one) <= 1 for one in places]].min()
    start = problem.single(0)
    found = call_program(problem, backend.costs, start, backend.schedule, 20.0)
    assert found.bound_ms <= fastest * (1 + 1e-6)
    found_ms = feasible_ms(backend, found.assignment)
    assert found_ms <= backend.evaluate_ignoring_limits(start).latency_ms
    assert found_ms <= fastest * (1 + 1e-4)
    assert found.proven


def in_a_row(
    ms: list[list[float]], host: list[bool], limit_bytes: int | None = None
) -> SimulatedBackend:
    """Operators in a row, 5 ms between host and accelerator, 10 bytes each."""
    n, d = np.shape(ms)
    costs = cost_table(chain(n), ms, [5] * (n - 1), host=host)
    problem = problem_of(grouped(chain(n)), costs, np.full(n, 10), memory_bytes=[limit_bytes] * d)
    return SimulatedBackend(problem, costs, LATENCY)


def test_operators_of_one_call_are_done_together() -> None:
    backend = in_a_row([[1.5, 1.4], [1.5, 1.4]], [True, False])
    found = call_program(backend.problem, backend.costs, ints([0, 0]), backend.schedule, 10.0)
    assert found.assignment.tolist() == [1, 1]
    assert found.bound_ms == pytest.approx(2.8)


def test_what_fits_nowhere_is_not_proven() -> None:
    backend = in_a_row([[1, 1]] * 3, [False, False], limit_bytes=15)
    start = greedy_fill(backend.problem, backend.costs)
    found = call_program(backend.problem, backend.costs, start, backend.schedule, 10.0)
    assert (found.assignment, found.proven, found.bound_ms) == (None, False, np.inf)


def test_greedy_filling_asks_for_support_and_room_everywhere() -> None:
    backend = in_a_row([[9, 1, 1]] * 4, [True, False, False], limit_bytes=20)
    backend.problem.supported[0, 1] = False
    placed = greedy_fill(backend.problem, backend.costs)
    assert feasible_ms(backend, placed) > 0.0
    assert placed.tolist() == [0, 1, 1, 2]
