# White-box tests of solvers.pipelines
"""Ideals: all of them, each once, smaller ones first."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import chain, grouped, made_graph
from pipelines import THROUGHPUT, all_ideals, draw_backend
from published_workloads import published

from placement_gym.solvers.pipelines import Forward, TooManyIdealsError
from placement_gym.solvers.pipelines.ideals import enumerate_ideals, enumerate_prefixes

COUNTS = {
    "LayerGraphs/bert24_inference": 39,
    "LayerGraphs/bert24_training": 39,
    "LayerGraphs/resnet50_inference": 242,
    "LayerGraphs/resnet50_training": 242,
    "LayerGraphs/inceptionv3_inference": 36_596,
    "LayerGraphs/inceptionv3_training": 36_596,
    "OperatorGraphs/bert_l-3_inference": 1428,
    "OperatorGraphs/bert_l-3_training": 2774,
    "OperatorGraphs/resnet50_inference": 241,
}
"""As the publication's program counts; of bert24 before leaves are merged."""


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_published_graphs_have_the_published_number_of_ideals(name: str, count: int) -> None:
    units = published(f"throughput-inputs/{name}", THROUGHPUT).problem.units
    assert len(enumerate_ideals(Forward.from_units(units))) == count


@pytest.mark.parametrize("seed", range(20))
def test_every_ideal_is_found_once_smaller_ones_first(seed: int) -> None:
    units = draw_backend(seed, n=8, coloured=bool(seed % 2), training=seed % 3 == 0).problem.units
    forward = Forward.from_units(units)
    ideals = enumerate_ideals(forward)
    sets = [frozenset(np.flatnonzero(ideals.nodes(i)).tolist()) for i in range(len(ideals))]
    assert len(sets) == len(set(sets))
    assert set(sets) == set(all_ideals(forward))
    assert (
        ideals.offsets.tolist()
        == np.searchsorted([len(ideal) for ideal in sets], np.arange(len(forward) + 2)).tolist()
    )


def test_words_hold_the_nodes_of_graphs_with_more_than_64() -> None:
    units = grouped(chain(130))
    ideals = enumerate_ideals(Forward.from_units(units))
    counts = np.unpackbits(ideals.words.view(np.uint8), axis=1).sum(axis=1)
    assert counts.tolist() == list(range(131))
    assert ideals.nodes(100).tolist() == [v < 100 for v in range(130)]


def test_ideals_of_a_diamond() -> None:
    units = grouped(made_graph(4, [(0, [1, 2]), (1, [3]), (2, [3])]))
    ideals = enumerate_ideals(Forward.from_units(units))
    assert [ideals.nodes(i).sum() for i in range(len(ideals))] == [0, 1, 2, 2, 3, 4]


def test_prefixes_contain_each_other() -> None:
    ideals = enumerate_prefixes(np.array([2, 0, 1]))
    nodes = [np.flatnonzero(ideals.nodes(i)).tolist() for i in range(len(ideals))]
    assert nodes == [[], [2], [0, 2], [0, 1, 2]]


@pytest.mark.parametrize("n", [20, 2000])
def test_a_graph_that_is_too_wide_is_refused_with_what_to_do(n: int) -> None:
    wide = Forward.from_units(grouped(made_graph(n, [])))
    with pytest.raises(TooManyIdealsError, match=r"more than 1000 ideals.*dpl"):
        enumerate_ideals(wide, 1000)


def test_as_many_ideals_as_allowed_are_no_error() -> None:
    units = grouped(made_graph(4, []))
    assert len(enumerate_ideals(Forward.from_units(units), 16)) == 16
    with pytest.raises(TooManyIdealsError):
        enumerate_ideals(Forward.from_units(units), 15)
