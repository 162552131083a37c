# White-box tests of graph
"""Synthetic graphs and what is computed of large ones: sizes, shapes, and linear memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections import deque
from collections.abc import Callable
from functools import cache

import gymnasium as gym
import numpy as np
import pytest
from graphs import chain, is_topological, op_graph, op_graphs, problem_on
from hypothesis import given
from hypothesis import strategies as st

from placement_gym.base import IntArray
from placement_gym.envs import N_FEATURES, compute_node_features
from placement_gym.graph import OpGraph, build_generated, group
from placement_gym.graph.features import count_within_distance, fractal_dimension
from placement_gym.graph.synthetic import FAMILIES, synthetic

RANDOM = ("synthetic-layered", "synthetic-series-parallel")
GROWN = (*RANDOM, "unrolled-lstm")
named = cache(synthetic)


@pytest.mark.parametrize("family", GROWN)
@pytest.mark.parametrize("n", [16, 100, 1000, 5000])
def test_a_graph_has_about_as_many_operators_as_its_name_says(family: str, n: int) -> None:
    assert abs(len(named(f"{family}-{n}")) - n) <= max(0.02 * n, 8)


@pytest.mark.parametrize("n", [400, pytest.param(4000, marks=pytest.mark.slow)])
def test_stacked_bert_has_about_as_many_operators_as_it_says(n: int) -> None:
    assert len(named(f"stacked-bert-{n}")) == pytest.approx(n, rel=0.3)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_name_gives_the_same_valid_graph(family: str) -> None:
    graph, again = (synthetic(f"{family}-1000") for _ in range(2))
    assert graph.model == f"{family}-1000"
    assert graph.fingerprint() == again.fingerprint()
    np.testing.assert_array_equal(graph.flops, again.flops)
    np.testing.assert_array_equal(graph.tensors.size_bytes, again.tensors.size_bytes)
    assert (graph.tensors.size_bytes > 0).all()
    assert len(set(graph.names)) == len(graph)
    assert is_topological(graph.edge_index)
    assert len(np.unique(graph.edge_index, axis=1).T) == graph.n_edges
    tensor, reader = graph.tensors.readings()
    read = np.stack([graph.tensors.source[tensor], reader])
    np.testing.assert_array_equal(np.unique(read, axis=1), graph.edge_index)


@pytest.mark.parametrize(
    ("family", "share"),
    [("synthetic-layered", 0.9), ("synthetic-series-parallel", 0.99), ("unrolled-lstm", 0.99)],
)
def test_colocation_contracts_next_to_nothing(family: str, share: float) -> None:
    graph = synthetic(f"{family}-2000")
    assert len(group(graph, "colocated")) >= share * len(graph)


@pytest.mark.parametrize("family", RANDOM)
def test_work_spreads_over_decades(family: str) -> None:
    graph = synthetic(f"{family}-2000")
    for figures in (graph.flops, graph.tensors.size_bytes, graph.weight_bytes):
        low, high = np.quantile(figures[figures > 0], [0.02, 0.98])
        assert high > 10 * low


def test_a_layer_reads_the_layer_before_one_or_two_inputs_each() -> None:
    graph = synthetic("synthetic-layered-900")
    inputs = graph.in_degree()
    assert (inputs[:30] == 0).all()
    assert set(inputs[30:].tolist()) == {1, 2}
    assert (graph.edge_index[1] // 30 - graph.edge_index[0] // 30 == 1).all()


def test_a_cell_reads_its_past_and_the_layer_below() -> None:
    graph = synthetic("unrolled-lstm-400")
    assert set(graph.types) == {"LSTMCell"}
    assert sorted(set(graph.in_degree().tolist())) == [0, 1, 2]
    assert (graph.in_degree() == 0).sum() == 1
    assert (graph.out_degree() == 0).sum() == 1


@pytest.mark.slow
def test_stacked_berts_follow_one_another() -> None:
    one, many = (named(f"stacked-bert-{n}") for n in (16, 4000))
    copies, rest = divmod(len(many), len(one))
    assert copies > 1
    assert rest == 0
    assert many.types == one.types * copies
    assert (many.out_degree() == 0).sum() == (one.out_degree() == 0).sum()
    assert (many.in_degree() == 0).sum() == (one.in_degree() == 0).sum()


def reduced(graph: OpGraph) -> set[tuple[int, int]]:
    """What series and parallel reductions leave of the edges; a set makes the latter itself."""
    before: dict[int, set[int]] = {i: set() for i in range(len(graph))}
    after: dict[int, set[int]] = {i: set() for i in range(len(graph))}
    for source, target in graph.edge_index.T.tolist():
        after[source].add(target)
        before[target].add(source)
    waiting = deque(range(len(graph)))
    while waiting:
        node = waiting.popleft()
        if len(before[node]) == len(after[node]) == 1:
            (source,), (target,) = before.pop(node), after.pop(node)
            before[node], after[node] = set(), set()
            after[source] = after[source] - {node} | {target}
            before[target] = before[target] - {node} | {source}
            waiting += [source, target]
    return {(source, target) for source, targets in after.items() for target in targets}


@pytest.mark.parametrize("n", [16, 100, 1000, 5000])
def test_a_series_parallel_graph_reduces_to_one_edge(n: int) -> None:
    graph = synthetic(f"synthetic-series-parallel-{n}")
    assert reduced(graph) == {(0, len(graph) - 1)}


def test_a_graph_that_is_not_series_parallel_does_not_reduce() -> None:
    bridge = op_graph(4, [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)])
    assert len(reduced(bridge)) == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *(
            (f"synthetic-layered-{size}", "16 to 1000000 operators")
            for size in (0, 15, 1000001, 10**11)
        ),
        *(
            (f"synthetic-layered-{size}", None)
            for size in ("-5", "5e3", "1000.0", " 1000", "1_000")
        ),
        *((name, "unrolled-lstm") for name in ("synthetic-1000", "layered-1000", "unrolled-lstm")),
        *((name, "unrolled-lstm") for name in ("stacked-bert-", "x-stacked-bert-20")),
    ],
)
def test_other_sizes_and_names_are_refused_with_those_there_are(
    name: str, message: str | None
) -> None:
    assert message != "unrolled-lstm" or build_generated(name) is None
    with pytest.raises(ValueError, match=message):
        synthetic(name)


def neighbourhoods(graph: OpGraph) -> tuple[IntArray, IntArray]:
    """The undirected graph in compressed sparse rows."""
    lists: list[list[int]] = [[] for _ in range(len(graph))]
    for a, b in graph.edge_index.T.tolist():
        lists[a].append(b)
        lists[b].append(a)
    first = np.cumsum([0, *map(len, lists)])
    return first, np.array([node for near in lists for node in near], dtype=np.int64)


def breadth_first(graph: OpGraph, radius: int) -> list[list[int]]:
    """Nodes within distance 1, 2, ... ``radius`` of each node, itself included."""
    first, near = neighbourhoods(graph)
    sizes = []
    for centre in range(len(graph)):
        seen, counts = {centre}, []
        for _ in range(radius):
            seen |= {int(other) for node in seen for other in near[first[node] : first[node + 1]]}
            counts.append(len(seen))
        sizes.append(counts)
    return sizes


@given(
    graph=op_graphs(max_size=20),
    radius=st.integers(1, 6),
    limit=st.one_of(st.integers(1, 20), st.just(1000)),
)
def test_balls_are_counted_by_breadth_first_search_to_a_limit(
    graph: OpGraph, radius: int, limit: int
) -> None:
    sizes = count_within_distance(*neighbourhoods(graph), radius, limit)
    assert sizes.max() <= limit
    np.testing.assert_array_equal(sizes, np.minimum(breadth_first(graph, radius), limit))


def test_a_hub_costs_no_more_than_the_limit() -> None:
    star = op_graph(3001, [(0, leaf) for leaf in range(1, 3001)])
    sizes = count_within_distance(*neighbourhoods(star), 3, 100)
    assert sizes[1].tolist() == [2, 100, 100]
    assert np.isfinite(fractal_dimension(star, limit=100)).all()


def test_distances_that_do_not_fit_into_a_radius_do_not_count() -> None:
    np.testing.assert_allclose(
        fractal_dimension(chain(200), radius=4)[100], fractal_dimension(chain(60), radius=4)[30]
    )


def test_features_take_memory_that_is_linear_in_the_graph() -> None:
    problem = problem_on(synthetic("synthetic-layered-10000"))
    fractal_dimension(chain(5))
    tracemalloc.start()
    x = compute_node_features(problem, None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert x.shape == (10_000, N_FEATURES)
    assert peak < 10_000**2 / 2


@pytest.mark.slow
def test_eighty_thousand_operators_need_no_observed_graph() -> None:
    env = gym.make("DevicePlacementSim-v0", model="synthetic-layered-80000", observe_graph=False)
    observation, start = env.reset(seed=0)
    info = env.step(env.action_space.sample())[4]
    assert "x" not in observation
    assert observation["placement"].shape[0] >= 0.9 * 80_000
    assert info["feasible"]
    assert info["latency_ms"] != start["latency_ms"]


def place_randomly(n: int) -> None:
    env = gym.make("DevicePlacementSim-v0", model=f"synthetic-layered-{n}", observe_graph=False)
    env.reset(seed=0)
    env.step(env.action_space.sample())


def count_calls(n: int) -> int:
    """Calls of Python and C functions while a graph of ``n`` operators is placed."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        place_randomly(n)
    finally:
        sys.setprofile(None)
    return calls


def peak_bytes(n: int) -> int:
    """Maximum memory while a graph of ``n`` operators is placed."""
    tracemalloc.start()
    place_randomly(n)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("measure", [count_calls, peak_bytes])
def test_work_and_memory_grow_linearly_with_the_graph(measure: Callable[[int], int]) -> None:
    place_randomly(100)
    small, large = measure(500), measure(2000)
    assert large < 5 * small
