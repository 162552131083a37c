"""Stages: one device each, and data only moves to later ones."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import draw_made, made_graph

from placement_gym.graph.submodels import (
    acyclic_submodels,
    count_stages,
    pipeline_stages,
    submodel_devices,
)

CHAIN = made_graph(4, [(0, [1]), (1, [2]), (2, [3])])
BRANCHES = made_graph(5, [(0, [1, 2]), (1, [3]), (2, [4])])


def test_device_is_one_stage_even_if_its_operators_are_apart() -> None:
    devices = np.array([0, 1, 1, 1, 1])
    assert acyclic_submodels(BRANCHES, devices).max() == 2
    assert pipeline_stages(BRANCHES, devices).tolist() == [0, 1, 1, 1, 1]


def test_a_device_that_data_returns_to_has_several_stages() -> None:
    assert pipeline_stages(CHAIN, np.array([0, 1, 0, 0])).tolist() == [0, 1, 2, 2]


def test_stages_are_counted_for_each_device() -> None:
    assert count_stages(CHAIN, np.array([0, 1, 0, 0]), 3).tolist() == [2, 1, 0]


def test_branches_of_one_device_are_one_stage_between_others() -> None:
    graph = made_graph(6, [(0, [1, 2]), (1, [3]), (2, [4]), (3, [5]), (4, [5])])
    devices = np.array([0, 1, 1, 1, 1, 0])
    assert pipeline_stages(graph, devices).tolist() == [0, 1, 1, 1, 1, 2]


def test_stages_are_numbered_in_the_order_of_data_not_of_devices() -> None:
    assert pipeline_stages(CHAIN, np.array([2, 2, 0, 1])).tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("seed", range(40))
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
