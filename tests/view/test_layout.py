"""Where units are drawn."""

from __future__ import annotations

import numpy as np
from graphs import chain, op_graph
from hypothesis import given
from hypothesis import strategies as st

from placement_gym.view import lay_out

EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30)


@given(EDGES)
def test_layers_rise_along_edges_and_units_stay_apart(pairs: list[tuple[int, int]]) -> None:
    graph = op_graph(12, [(a, b) for a, b in pairs if a < b])
    layout = lay_out(graph)
    source, target = graph.edge_index
    assert (layout.layer[source] < layout.layer[target]).all()
    spans = (layout.layer[target] - layout.layer[source] - 1).tolist()
    assert [len(bends) for bends in layout.bends] == spans
    for layer in np.unique(layout.layer):
        apart = np.diff(np.sort(layout.position[layout.layer == layer]))
        assert (apart > 1 - 1e-6).all()


def test_a_chain_is_a_straight_line() -> None:
    layout = lay_out(chain(50))
    assert layout.layer.tolist() == list(range(50))
    assert np.ptp(layout.position) < 1e-6


def test_a_source_is_beside_its_first_reader() -> None:
    layout = lay_out(op_graph(5, [(0, 1), (1, 2), (2, 3), (4, 3)]))
    assert layout.layer.tolist() == [0, 1, 2, 3, 2]


def test_two_chains_do_not_cross() -> None:
    edges = [(0, 3), (1, 2), (2, 4), (3, 5), (4, 6), (5, 7)]
    layout = lay_out(op_graph(8, edges))
    by_chain = layout.position[[0, 3, 5, 7]] - layout.position[[1, 2, 4, 6]]
    assert (by_chain < 0).all() or (by_chain > 0).all()


def test_an_edge_that_passes_a_layer_bends_around_its_unit() -> None:
    graph = op_graph(3, [(0, 1), (0, 2), (1, 2)])
    layout = lay_out(graph)
    (bend,) = layout.bends[graph.edge_index.T.tolist().index([0, 2])]
    assert abs(bend - layout.position[1]) > 0.99
