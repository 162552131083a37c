# White-box tests of graph
from __future__ import annotations

import numpy as np
import pytest
from graphs import GraphOf, chain, op_graph

from placement_gym.graph import OpGraph, group
from placement_gym.graph.features import (
    MAX_DEGREE,
    OTHER_TYPE,
    POSITIONS,
    TYPES,
    degrees,
    fractal_dimension,
    positions,
    shapes,
    type_shares,
    work,
)


def grid(side: int) -> OpGraph:
    right = [(r * side + c, r * side + c + 1) for r in range(side) for c in range(side - 1)]
    down = [(r * side + c, (r + 1) * side + c) for r in range(side - 1) for c in range(side)]
    return op_graph(side * side, right + down)


def star(leaves: int) -> OpGraph:
    return op_graph(leaves + 1, [(0, leaf) for leaf in range(1, leaves + 1)])


def test_fractal_dimension_of_path_grid_and_lone_operator() -> None:
    dimension = fractal_dimension(chain(101))
    assert dimension.shape == (101, 1)
    assert 0.8 <= dimension[50, 0] <= 1.1
    assert 0.8 <= np.median(dimension) <= 1.1
    assert 1.6 <= fractal_dimension(grid(35))[35 * 17 + 17, 0] <= 2.1
    assert fractal_dimension(op_graph(2, [])).tolist() == [[0.0], [0.0]]


def test_fractal_dimension_ignores_the_direction_of_edges() -> None:
    forward = op_graph(7, [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)])
    backward = op_graph(7, [(6 - b, 6 - a) for a, b in forward.edge_index.T.tolist()])
    np.testing.assert_allclose(fractal_dimension(forward), fractal_dimension(backward)[::-1])


def test_fractal_dimension_counts_reachable_nodes_only() -> None:
    apart = op_graph(20, [(i, i + 1) for i in range(19) if i != 9])
    np.testing.assert_allclose(fractal_dimension(apart)[:10], fractal_dimension(chain(10)))


def test_fractal_dimensions_of_resnet_match_the_noted_ones(graph_of: GraphOf) -> None:
    found = fractal_dimension(graph_of("resnet-fp16", "raw"))
    assert np.isfinite(found).all()
    assert 0.5 < found.min() < found.max() < 3.0


def test_positions_are_sines_and_cosines_of_the_order() -> None:
    table = positions(2000)
    assert table.shape == (2000, POSITIONS)
    assert len(np.unique(table.round(9), axis=0)) == 2000
    for i in range(POSITIONS // 2):
        angle = np.arange(2000) / 1000 ** (2 * i / POSITIONS)
        np.testing.assert_allclose(table[:, 2 * i], np.sin(angle))
        np.testing.assert_allclose(table[:, 2 * i + 1], np.cos(angle))


@pytest.mark.parametrize("kind", ["Convolution", "MatMul", "Relu", "Quux"])
def test_type_of_a_lone_operator_is_one_hot_an_unknown_one_last(kind: str) -> None:
    row = type_shares(group(op_graph(1, [], types=[kind]), "op"))[0]
    assert row.shape == (OTHER_TYPE + 1,)
    assert row[-1 if kind == "Quux" else TYPES.index(kind)] == row.sum() == 1.0
    assert list(TYPES) == sorted(set(TYPES))


def test_type_of_a_unit_is_the_mean_of_its_members() -> None:
    graph = op_graph(4, [(0, 1), (1, 2), (2, 3)], types=["Relu", "Add", "Relu", "Quux"])
    row = type_shares(group(graph, "colocated"))[0]
    assert row[TYPES.index("Relu")] == 0.5
    assert row[TYPES.index("Add")] == row[OTHER_TYPE] == 0.25


@pytest.mark.parametrize("name", ["tiny", "resnet", "inception-fp16", "bert-8"])
def test_every_operator_of_a_built_in_model_has_a_type_column(graph_of: GraphOf, name: str) -> None:
    assert set(graph_of(name, "raw").types) <= set(TYPES)


@pytest.mark.parametrize("name", ["tiny", "resnet"])
def test_shapes_are_logs_padded_on_the_left(graph_of: GraphOf, name: str) -> None:
    graph = graph_of(name, "folded")
    for row, shape in zip(shapes(graph), graph.shapes, strict=True):
        np.testing.assert_allclose(row, [0.0] * (6 - len(shape)) + np.log1p(shape).tolist())


def test_degrees_are_one_hot_and_clipped() -> None:
    graph = star(MAX_DEGREE + 3)
    outgoing, incoming = degrees(graph, incoming=False), degrees(graph, incoming=True)
    assert outgoing.shape == incoming.shape == (len(graph), MAX_DEGREE + 1)
    assert outgoing.argmax(axis=1).tolist() == [MAX_DEGREE] + [0] * (MAX_DEGREE + 3)
    assert incoming.argmax(axis=1).tolist() == [0] + [1] * (MAX_DEGREE + 3)
    assert outgoing.sum(axis=1).tolist() == [1.0] * len(graph)


def test_work_is_flops_weights_and_what_others_read() -> None:
    graph = op_graph(3, [(0, 1), (0, 2)], size_bytes=2000, weight_bytes=5000)
    np.testing.assert_allclose(work(graph)[0], np.log1p([0.001, 5.0, 2.0]))
    np.testing.assert_allclose(work(graph)[1], np.log1p([0.001, 5.0, 0.0]))
