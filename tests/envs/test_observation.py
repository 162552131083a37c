# White-box tests of envs
from __future__ import annotations

from itertools import combinations
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import UNIT_MS, assignment, diamond_backend, diamond_problem, placed
from graphs import chain, problem_on

from placement_gym.envs import (
    FEATURES,
    N_FEATURES,
    DevicePlacementEnv,
    Observation,
    Observer,
    edge_index,
    read_graph_id,
)
from placement_gym.envs.observation import MAX_PADDED
from placement_gym.hardware import DeviceSpec


def observer(**kwargs: Any) -> Observer:
    return Observer(diamond_problem(), **{"horizon": 3, **kwargs})


def observed(step: int = 0, **kwargs: Any) -> Observation:
    return observer(**kwargs).observe(assignment([0, 1, 1, 0]), step)


@pytest.mark.parametrize("padding", [{}, {"max_nodes": 7}, {"max_nodes": 7, "max_edges": 9}])
def test_shapes_and_types_are_as_documented(padding: dict[str, int]) -> None:
    n, e = padding.get("max_nodes", 4), padding.get("max_edges", 4)
    found = {key: (value.dtype, value.shape) for key, value in observed(**padding).items()}
    assert found == {
        "node_mask": (np.int8, (n,)),
        "placement": (np.float32, (n,)),
        "step": (np.float32, (1,)),
        "graph_id": (np.float32, (1,)),
        "x": (np.float32, (n, N_FEATURES)),
        "edges": (np.float32, (2, e)),
        "edge_mask": (np.int8, (e,)),
    }


@pytest.mark.parametrize(
    "options", [{}, {"max_nodes": 7, "max_edges": 9}, {"observe_graph": False}]
)
def test_the_space_contains_every_observation(options: dict[str, Any]) -> None:
    watcher = observer(**options)
    for step in range(4):
        assert watcher.space().contains(watcher.observe(assignment([1, 1, 1, 1]), step))


def test_a_single_unit_leaves_no_empty_range() -> None:
    """Gymnasium's checker warns of a range that holds one value."""
    space = Observer(problem_on(chain(1)), 1).space()
    boxes = [box for box in space.values() if isinstance(box, gym.spaces.Box)]
    assert all((box.low < box.high).all() for box in boxes)


def test_a_step_beyond_the_horizon_is_not_in_the_space() -> None:
    assert not observer().space().contains(observed(step=4))


def test_padding_is_zero_and_masked() -> None:
    observation = observed(max_nodes=7, max_edges=9)
    assert observation["node_mask"].tolist() == [1, 1, 1, 1, 0, 0, 0]
    assert observation["edge_mask"].tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert placed(observation).tolist() == [0, 1, 1, 0, 0, 0, 0]
    assert edge_index(observation).tolist() == [
        [0, 0, 1, 2, 0, 0, 0, 0, 0],
        [1, 2, 3, 3, 0, 0, 0, 0, 0],
    ]
    assert not observation["x"][4:].any()
    np.testing.assert_array_equal(observation["x"][:4], observed()["x"])


def test_observations_share_no_memory() -> None:
    watcher = observer()
    placed = assignment([0, 1, 1, 0])
    first, second = watcher.observe(placed, 0), watcher.observe(placed, 1)
    arrays = [placed, *first.values(), *second.values()]
    assert not any(np.shares_memory(a, b) for a, b in combinations(arrays, 2))


def test_the_named_blocks_cover_every_column_once() -> None:
    columns = [column for block in FEATURES.values() for column in range(N_FEATURES)[block]]
    assert columns == list(range(N_FEATURES))


def test_features_are_finite_and_tell_the_units_apart() -> None:
    x = observed()["x"]
    assert np.isfinite(x).all()
    assert len(np.unique(x, axis=0)) == 4


def test_costs_fill_a_column_per_device_in_proportion_to_times() -> None:
    block = observed(unit_ms=np.array(UNIT_MS))["x"][:, FEATURES["cost"]]
    assert not block[:, 2:].any()
    times = np.expm1(block[:, :2])
    np.testing.assert_allclose(times / times[0, 0], np.array(UNIT_MS) / 4.0, rtol=1e-6)


def test_costs_are_zero_without_a_table() -> None:
    assert not observed()["x"][:, FEATURES["cost"]].any()


def test_degrees_are_one_hot() -> None:
    x = observed()["x"]
    assert x[:, FEATURES["in_degree"]].argmax(axis=1).tolist() == [0, 1, 1, 2]
    assert x[:, FEATURES["out_degree"]].argmax(axis=1).tolist() == [2, 1, 1, 0]
    assert (x[:, FEATURES["in_degree"]].sum(axis=1) == 1).all()


def test_the_type_block_follows_the_operator_type() -> None:
    types = observed()["x"][:, FEATURES["type"]]
    assert (types.sum(axis=1) == 1).all()
    assert len(set(types.argmax(axis=1).tolist())) == 4


def test_more_devices_than_cost_columns_are_refused() -> None:
    seventeen = tuple(DeviceSpec(f"GPU.{index}") for index in range(17))
    with pytest.raises(ValueError, match="at most 16 devices"):
        Observer(diamond_problem(seventeen), horizon=1)


def test_the_observation_carries_the_last_placement_and_the_step() -> None:
    env = DevicePlacementEnv(diamond_backend(), horizon=2)
    start, _ = env.reset()
    assert (placed(start).tolist(), start["step"].tolist()) == ([0, 0, 0, 0], [0])
    after, *_ = env.step([0, 1, 0, 1])
    assert (placed(after).tolist(), after["step"].tolist()) == ([0, 1, 0, 1], [0.5])
    for key in ("x", "edges", "edge_mask", "node_mask", "graph_id"):
        np.testing.assert_array_equal(after[key], start[key])


@pytest.mark.parametrize(
    "other",
    [{"model": "tiny", "granularity": "op"}, {"model": "tiny", "graph": "raw"}],
    ids=["granularity", "graph"],
)
def test_graph_ids_tell_grouped_graphs_apart(other: dict[str, Any]) -> None:
    ids = {
        int(read_graph_id(gym.make("DevicePlacementSim-v0", **kwargs).reset()[0])[0])
        for kwargs in ({"model": "tiny"}, {"model": "tiny"}, other)
    }
    assert len(ids) == 2
    assert all(0 <= graph_id < 2**24 for graph_id in ids)


def test_graph_ids_tell_support_and_costs_apart() -> None:
    times = np.array(UNIT_MS)
    refusing = Observer(diamond_problem(refused=[(2, 1)]), horizon=3)
    others = [observer(unit_ms=times), observer(unit_ms=times[::-1].copy()), refusing]
    ids = [watcher.graph_id for watcher in (observer(), *others)]
    assert len(set(ids)) == 4
    assert ids[0] == observer().graph_id


def test_models_padded_alike_share_their_spaces() -> None:
    size = {"max_nodes": 200, "max_edges": 300}
    tiny, resnet = (
        gym.make("DevicePlacementSim-v0", model=model, **size) for model in ("tiny", "resnet")
    )
    assert tiny.observation_space == resnet.observation_space
    assert tiny.action_space == resnet.action_space


@pytest.mark.parametrize("granularity", ["op", "colocated", "fused"])
def test_edges_lead_from_earlier_to_later_units(granularity: str) -> None:
    env = gym.make("DevicePlacementSim-v0", model="tiny", granularity=granularity)
    observation, _ = env.reset()
    source, target = edge_index(observation)
    assert (source < target).all()
    assert observation["edge_mask"].all()


@pytest.mark.parametrize("size", ["max_nodes", "max_edges", "max_devices"])
def test_sizes_beyond_the_largest_graph_are_refused_before_memory_is(size: str) -> None:
    with pytest.raises(
        ValueError, match=rf"{size} must be an integer of at most {MAX_PADDED[size]}"
    ):
        observed(**{size: 3 * 10**9})
