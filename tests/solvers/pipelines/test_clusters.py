"""Pipelines over clusters: brute force on small graphs, and what they equal without any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from by_hand import chain, cost_table, every_placement, grouped, ints, made_graph, problem_of
from pipelines import THROUGHPUT, draw_backend, is_pipeline, plain_pipeline_ms

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.solvers.pipelines.clusters import clustered_pipeline, region_costs
from placement_gym.solvers.pipelines.pipeline import (
    exact_pipeline,
    find_largest_load_ms,
    linear_pipeline,
)

AXES: dict[str, dict[str, Any]] = {
    "alike": {"kinds": "BBBB"},
    "host": {"kinds": "ABBB"},
    "kinds": {"kinds": "ABCB"},
    "limits": {"kinds": "ABBB", "limited": True},
    "support": {"kinds": "ABBB", "refused": 0.3},
    "colours": {"kinds": "BBBB", "coloured": True},
    "training": {"kinds": "ABBB", "training": True},
}
PAIRS = ints([0, 0, 1, 1])


def slow_links(costs: CostTable, cluster: IntArray, times: float) -> CostTable:
    """Links between clusters that are so many times slower."""
    factor = np.where(cluster[:, None] == cluster, 1.0, times)
    return replace(costs, link_ms_per_size=costs.link_ms_per_size * factor)


def link_ms(costs: CostTable, t: int, here: int, there: list[int]) -> float:
    """Time of a device for a tensor to or from others: the first host, or the nearest by half."""
    hosts = [one for one in there if costs.host[one]]
    if costs.host[here] or not there:
        return 0.0
    if hosts:
        return float(costs.transfer_ms[t, here, hosts[0]])
    return float(costs.transfer_ms[t, here, there].min()) / 2


def load_by_links_ms(backend: SimulatedBackend, cluster: IntArray, device: IntArray) -> float:
    """The largest load, one transfer after the other."""
    units, costs = backend.problem.units, backend.costs
    place = device[units.of_operator]
    load = np.zeros(len(cluster))
    for operator, here in enumerate(place):
        load[here] += costs.operator_ms[operator, here]
    tensors = units.graph.tensors
    for t, (source, first, stop) in enumerate(
        zip(tensors.source, tensors.offsets, tensors.offsets[1:], strict=False)
    ):
        maker, sent_ms = int(place[source]), 0.0
        for reader in sorted({int(place[v]) for v in tensors.readers[first:stop]} - {maker}):
            near = cluster[reader] == cluster[maker]

            def members(a: int, near: bool = bool(near)) -> list[int]:
                return [
                    b for b in range(len(cluster)) if b != a and (cluster[b] == cluster[a]) == near
                ]

            load[reader] += link_ms(costs, t, reader, members(reader))
            sent_ms = max(sent_ms, link_ms(costs, t, maker, members(maker)))
        load[maker] += sent_ms
    return float(load.max())


def least_by_links_ms(backend: SimulatedBackend, cluster: IntArray) -> float:
    """The smallest of all placements that are pipelines of devices, and of clusters."""
    return min(
        (
            load_by_links_ms(backend, cluster, one)
            for one in every_placement(backend.problem)
            if not backend.problem.infeasibility(one)
            and is_pipeline(backend, one)
            and is_pipeline(backend, cluster[one])
        ),
        default=np.inf,
    )


def draw_clusters(seed: int, n: int, times: float, **axis: Any) -> SimulatedBackend:
    drawn = draw_backend(seed, n, idle=0.2, **axis)
    return SimulatedBackend(drawn.problem, slow_links(drawn.costs, PAIRS, times), THROUGHPUT)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("seed", range(4))
def test_no_pipeline_of_clusters_has_a_smaller_load(axis: str, seed: int) -> None:
    backend = draw_clusters(seed, 2 + seed, 3.0, **AXES[axis])
    problem, costs = backend.problem, backend.costs
    least_ms = least_by_links_ms(backend, PAIRS)
    if not np.isfinite(least_ms):
        with pytest.raises(ValueError, match="no contiguous split fits"):
            clustered_pipeline(problem, costs, PAIRS)
        return
    found = clustered_pipeline(problem, costs, PAIRS)
    assert found.load_ms == pytest.approx(least_ms)
    assert load_by_links_ms(backend, PAIRS, found.device) == pytest.approx(least_ms)
    assert problem.infeasibility(found.device) == ""


@pytest.mark.parametrize(
    "drawn",
    [
        draw_backend(51, 6, "BBBB", training=True, idle=0.7),
        draw_backend(35, 6, "ABBB", limited=True, idle=0.5),
    ],
    ids=["backward readers", "limits"],
)
def test_leaves_join_only_where_nothing_is_lost(drawn: SimulatedBackend) -> None:
    backend = SimulatedBackend(drawn.problem, slow_links(drawn.costs, PAIRS, 3.0), THROUGHPUT)
    found = clustered_pipeline(backend.problem, backend.costs, PAIRS)
    assert found.load_ms == pytest.approx(least_by_links_ms(backend, PAIRS))


def test_three_clusters_equal_brute_force() -> None:
    cluster = ints([0, 1, 1, 2])
    for seed in range(3):
        drawn = draw_backend(seed, 5, "BBBB")
        costs = slow_links(drawn.costs, cluster, 3.0)
        backend = SimulatedBackend(drawn.problem, costs, THROUGHPUT)
        found = clustered_pipeline(drawn.problem, costs, cluster)
        assert found.load_ms == pytest.approx(least_by_links_ms(backend, cluster))


@pytest.mark.parametrize("linear", [False, True])
def test_equal_links_give_the_split_without_clusters(linear: bool) -> None:
    solve = linear_pipeline if linear else exact_pipeline
    for seed in range(4):
        backend = draw_backend(seed, 9, "BBBB", training=seed % 2 > 0)
        problem, costs = backend.problem, backend.costs
        least_ms = find_largest_load_ms(problem, costs, solve(problem, costs))
        found = clustered_pipeline(problem, costs, PAIRS, linear)
        assert found.load_ms == pytest.approx(least_ms)


@pytest.mark.parametrize("axis", ["host", "kinds", "limits", "training"])
def test_one_cluster_is_the_published_recursion(axis: str) -> None:
    backend = draw_backend(1, 7, **AXES[axis])
    found = clustered_pipeline(backend.problem, backend.costs, ints([0] * 4))
    assert found.load_ms == pytest.approx(plain_pipeline_ms(backend))


def test_links_that_are_too_slow_are_not_crossed() -> None:
    """Four operators of 4 ms in a row, with tensors that take 0.5, 1.5 and 1 ms at each end."""
    costs = cost_table(chain(4), [[4.0] * 4] * 4, [1.0, 3.0, 2.0])
    problem = problem_of(grouped(chain(4)), costs)
    loads = [
        clustered_pipeline(problem, slow_links(costs, PAIRS, times), PAIRS).load_ms
        for times in (1.0, 2.0, 20.0)
    ]
    # each alone: 4 + 1.5 + 1; the second link slow: 4 + 3 + 1; pairs in one cluster: 8 + 1.5
    assert loads == pytest.approx([6.5, 8.0, 9.5])


def test_a_tensor_is_sent_once_at_the_speed_of_the_slowest_link() -> None:
    """Its maker has a reader beside it, and another in the other cluster."""
    graph = made_graph(3, [(0, [1, 2])])
    costs = slow_links(cost_table(graph, np.zeros((3, 4)), [2.0]), PAIRS, 5.0)
    problem = problem_of(grouped(graph), costs)
    device = ints([0, 1, 2])
    known = region_costs(problem, costs, PAIRS, PAIRS[device])
    assert known.boundary_ms[0].tolist() == [1.0, 1.0, 5.0, 5.0]
    assert find_largest_load_ms(problem, known, device) == pytest.approx(5.0)
    beside = ints([0, 1, 1])
    known = region_costs(problem, costs, PAIRS, PAIRS[beside])
    assert find_largest_load_ms(problem, known, beside) == pytest.approx(1.0)
