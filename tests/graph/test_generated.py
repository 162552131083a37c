"""Graphs of generated families: names, sizes, shapes and plausible work."""

from __future__ import annotations

from functools import cache

import gymnasium as gym
import numpy as np
import pytest
from graphs import is_topological

from placement_gym.base import UserError
from placement_gym.envs import placement_env
from placement_gym.graph import FAMILIES, build_family, name_graph

named = cache(build_family)


@pytest.mark.parametrize("family", FAMILIES)
def test_name_gives_the_same_graph_and_each_seed_another(family: str) -> None:
    first, again = (build_family(name_graph(family, 60, 7)) for _ in range(2))
    assert first.fingerprint() == again.fingerprint()
    np.testing.assert_array_equal(first.flops, again.flops)
    others = {build_family(name_graph(family, 60, seed)).flops.sum() for seed in range(5)}
    assert len(others) > 1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [16, 40, 120, 400])
def test_graphs_are_acyclic_and_have_about_the_stated_size(family: str, n: int) -> None:
    graph = named(name_graph(family, n, 3))
    assert is_topological(graph.edge_index)
    assert abs(len(graph) - n) <= 0.2 * n + 15


@pytest.mark.parametrize("family", FAMILIES)
def test_work_is_finite_and_that_of_real_networks(family: str) -> None:
    for seed in range(5):
        graph = named(name_graph(family, 120, seed))
        tensor_bytes = graph.tensors.size_bytes
        assert np.isfinite(graph.flops).all()
        assert (graph.flops >= 0).all()
        assert (graph.weight_bytes >= 0).all()
        assert 1e8 < graph.flops.sum() < 1e14
        assert 1e6 < graph.weight_bytes.sum() < 1e10
        assert 64 <= tensor_bytes.min() <= tensor_bytes.max() < 1e9


def test_every_head_is_a_branch_of_its_own() -> None:
    seen = set()
    for seed in range(20):
        graph = named(name_graph("attention", 200, seed))
        joined = [i for i, kind in enumerate(graph.types) if kind == "Concat"]
        heads = graph.types.count("Softmax") // len(joined)
        assert set(graph.in_degree()[joined].tolist()) == {heads}
        seen.add(heads)
    assert seen == {1, 2, 4, 8}


def test_branches_meet_in_concatenations() -> None:
    graph = named(name_graph("branching", 100, 1))
    joined = [i for i, kind in enumerate(graph.types) if kind == "Concat"]
    assert len(joined) > 2
    assert (graph.in_degree()[joined] >= 2).all()
    assert (graph.out_degree() == 0).sum() == 1


def test_a_cell_reads_its_previous_step_and_the_layer_below() -> None:
    graph = named(name_graph("recurrent", 120, 1))
    cells = [i for i, kind in enumerate(graph.types) if kind == "LSTMCell"]
    steps = graph.types.count("Gather")
    assert len(cells) % steps == 0
    assert sorted(set(graph.in_degree()[cells].tolist())) == [1, 2]


def test_skip_connections_join_levels_of_equal_size() -> None:
    graph = named(name_graph("u-shaped", 100, 1))
    joined = [i for i, kind in enumerate(graph.types) if kind == "Concat"]
    assert joined
    for operator in joined:
        inputs = graph.edge_index[0, graph.edge_index[1] == operator]
        assert len({graph.shapes[i][2:] for i in inputs}) == 1


def test_all_experts_are_chosen_by_the_router() -> None:
    graph = named(name_graph("experts", 100, 1))
    routers = [i for i, kind in enumerate(graph.types) if kind == "Softmax"]
    assert routers
    assert len(set(graph.out_degree()[routers].tolist())) == 1
    assert graph.out_degree()[routers[0]] >= 4


@pytest.mark.parametrize("family", FAMILIES)
def test_names_go_through_make(family: str) -> None:
    name = name_graph(family, 40, 11)
    env = placement_env(gym.make("DevicePlacementSim-v0", model=name, granularity="op"))
    assert env.problem.units.graph.model == name
    assert env.problem.n_units == len(named(name))
    costs = env.cost_table()
    assert np.isfinite(costs.operator_ms).all()
    assert 1e-3 < env.reset(seed=0)[1]["latency_ms"] < 1e5


@pytest.mark.parametrize(
    "name",
    [
        "family-attentoin-120-seed7",
        "family-attention-120",
        "family-attention-15-seed1",
        "family-attention-100001-seed1",
        "family-attention-120-seed99999999999",
        "family-",
    ],
)
def test_a_wrong_name_is_refused_with_the_form(name: str) -> None:
    with pytest.raises(UserError, match="a generated model"):
        gym.make("DevicePlacementSim-v0", model=name)
