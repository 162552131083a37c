from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from by_hand import draw_made, made_graph
from graphs import GraphOf, chain, op_graph, op_graphs
from hypothesis import given
from hypothesis import strategies as st
from oracle import count_stages

from placement_gym.base import IntArray
from placement_gym.graph import (
    OpGraph,
    acyclic_submodels,
    group,
    pipeline_stages,
    separating_colours,
    submodel_devices,
)


@st.composite
def placed_graphs(draw: st.DrawFn) -> tuple[OpGraph, IntArray]:
    graph = draw(op_graphs())
    devices = st.lists(st.integers(0, 2), min_size=len(graph), max_size=len(graph))
    return graph, np.array(draw(devices), dtype=np.int64)


def ints(*values: int) -> IntArray:
    return np.array(values, dtype=np.int64)


def touching(graph: OpGraph) -> set[tuple[int, int]]:
    """Pairs of operators that share an edge or a model input."""
    shared = {pair for readers in graph.inputs for pair in combinations(readers, 2)}
    return shared | set(map(tuple, graph.edge_index.T.tolist()))


def part_of(start: int, pairs: set[tuple[int, int]]) -> frozenset[int]:
    """Everything connected to an operator."""
    found, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        met = {end for pair in pairs if here in pair for end in pair} - found
        found |= met
        waiting += met
    return frozenset(found)


@given(placed_graphs())
def test_each_submodel_is_connected_on_one_device(placed: tuple[OpGraph, IntArray]) -> None:
    """Producers come first, so they form no circle; one device has one for each connected part."""
    graph, devices = placed
    alone = np.zeros(len(graph), dtype=np.int64)
    parts = {part_of(operator, touching(graph)) for operator in range(len(graph))}
    assert acyclic_submodels(graph, alone).max() + 1 == len(parts)
    submodels = acyclic_submodels(graph, devices)
    on = submodel_devices(graph, devices, submodels)
    assert on[submodels].tolist() == devices.tolist()
    source, target = submodels[graph.edge_index]
    assert (source <= target).all()
    assert sorted(set(submodels.tolist())) == list(range(submodels.max() + 1))
    for submodel in range(submodels.max() + 1):
        members = set(np.flatnonzero(submodels == submodel).tolist())
        inside = {pair for pair in touching(graph) if members.issuperset(pair)}
        assert part_of(min(members), inside) == members


@pytest.mark.parametrize("moved", [1, 2, 3])
def test_moving_a_unit_inside_a_chain_gives_three_submodels(moved: int) -> None:
    devices = ints(0, 0, 0, 0, 0)
    devices[moved] = 1
    submodels = acyclic_submodels(chain(5), devices)
    assert submodels.tolist() == [0] * moved + [1] + [2] * (4 - moved)


@pytest.mark.parametrize("name", ["resnet", "inception"])
def test_moving_one_unit_gives_at_most_three_submodels(graph_of: GraphOf, name: str) -> None:
    units = group(graph_of(name, "folded"), "colocated")
    counts = set()
    for unit in range(len(units)):
        devices = (units.of_operator == unit).astype(np.int64)
        counts.add(int(acyclic_submodels(units.graph, devices).max()) + 1)
    assert counts == {2, 3}


@pytest.mark.parametrize(
    ("edges", "devices", "expected"),
    [
        pytest.param([(0, 1), (1, 2), (2, 3), (0, 3)], [0, 1, 1, 0], [0, 1, 1, 2], id="skip"),
        pytest.param([(0, 1), (0, 2), (1, 3), (2, 3)], [0, 1, 0, 0], [0, 1, 0, 2], id="branch"),
        pytest.param([(0, 1), (1, 3), (2, 3)], [0, 1, 0, 0], [0, 1, 2, 2], id="side branch"),
    ],
)
def test_what_is_beside_a_moved_operator_joins_a_neighbour_without_a_circle(
    edges: list[tuple[int, int]], devices: list[int], expected: list[int]
) -> None:
    assert acyclic_submodels(op_graph(4, edges), ints(*devices)).tolist() == expected


def test_readers_of_an_input_are_a_submodel_but_those_elsewhere() -> None:
    graph = op_graph(3, [], inputs=[(0, 1, 2)])
    for devices in (ints(0, 0, 0), ints(0, 1, 0)):
        submodels = acyclic_submodels(graph, devices)
        assert submodels[0] == submodels[2]
        assert (submodels[0] == submodels[1]) == (devices[1] == 0)


def test_constants_parameters_and_results_follow_neighbours() -> None:
    types = ("Parameter", "Constant", "Add", "Result")
    graph = op_graph(4, [(0, 2), (1, 2), (2, 3)], inputs=[(2,)], types=types)
    submodels = acyclic_submodels(graph, ints(1, 2, 0, 1))
    assert submodels.tolist() == [0, 0, 0, 0]
    assert submodel_devices(graph, ints(1, 2, 0, 1), submodels).tolist() == [0]


def test_raw_model_on_one_device_is_one_submodel(graph_of: GraphOf) -> None:
    raw = graph_of("resnet", "raw")
    elsewhere = [kind in ("Constant", "Parameter", "Result") for kind in raw.types]
    assert acyclic_submodels(raw, np.array(elsewhere, dtype=np.int64)).max() == 0


@given(placed_graphs())
def test_touching_submodels_of_one_device_differ_in_colour(
    placed: tuple[OpGraph, IntArray],
) -> None:
    graph, devices = placed
    submodels = acyclic_submodels(graph, devices)
    colours = separating_colours(graph, devices, submodels)
    assert len(colours) == submodels.max() + 1
    tied = set(map(tuple, graph.edge_index.T.tolist()))
    for readers in graph.inputs:
        owner = min(readers, key=lambda reader: (submodels[reader], reader), default=0)
        tied |= {(owner, reader) for reader in readers}
    for a, b in tied:
        if devices[a] == devices[b] and submodels[a] != submodels[b]:
            assert colours[submodels[a]] != colours[submodels[b]]


def test_submodels_that_do_not_touch_share_the_first_colour() -> None:
    devices = ints(0, 1, 0, 1, 0)
    submodels = acyclic_submodels(chain(5), devices)
    assert separating_colours(chain(5), devices, submodels).tolist() == [0] * 5


def test_skip_over_another_device_needs_a_second_colour() -> None:
    skip = op_graph(3, [(0, 1), (1, 2), (0, 2)])
    devices = ints(0, 1, 0)
    submodels = acyclic_submodels(skip, devices)
    assert separating_colours(skip, devices, submodels).tolist() == [0, 0, 1]


CHAIN = chain(4)
BRANCHES = made_graph(5, [(0, [1, 2]), (1, [3]), (2, [4])])


def test_device_is_one_stage_even_if_its_operators_are_apart() -> None:
    devices = np.array([0, 1, 1, 1, 1])
    assert acyclic_submodels(BRANCHES, devices).max() == 2
    assert pipeline_stages(BRANCHES, devices).tolist() == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("devices", "stages"),
    [
        pytest.param([0, 1, 0, 0], [0, 1, 2, 2], id="data return to a device"),
        pytest.param([2, 2, 0, 1], [0, 0, 1, 2], id="in the order of data, not of devices"),
    ],
)
def test_stages_of_a_chain_are_numbered_as_data_pass(devices: list[int], stages: list[int]) -> None:
    assert pipeline_stages(CHAIN, ints(*devices)).tolist() == stages


def test_stages_are_counted_for_each_device() -> None:
    assert count_stages(CHAIN, np.array([0, 1, 0, 0]), 3).tolist() == [2, 1, 0]


def test_branches_of_one_device_are_one_stage_between_others() -> None:
    graph = made_graph(6, [(0, [1, 2]), (1, [3]), (2, [4]), (3, [5]), (4, [5])])
    devices = np.array([0, 1, 1, 1, 1, 0])
    assert pipeline_stages(graph, devices).tolist() == [0, 1, 1, 1, 1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_stages_hold_one_device_and_edges_never_descend(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    graph = made_graph(n, draw_made(rng, n, share=0.3))
    devices = rng.integers(0, int(rng.integers(1, 4)), n)
    stages = pipeline_stages(graph, devices)
    source, target = graph.edge_index
    assert (stages[source] <= stages[target]).all()
    on = submodel_devices(graph, devices, stages)
    assert (on[stages] == devices).all()
    assert set(stages.tolist()) == set(range(len(on)))
    assert len(on) <= acyclic_submodels(graph, devices).max() + 1
