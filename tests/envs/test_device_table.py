# White-box tests of envs
"""What observations tell of devices, links and limits."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import LIMITED, TRANSFER_MS, UNIT_MS, FakeBackend, diamond_backend, placed
from fakes import diamond_problem as problem_on
from gymnasium.utils.env_checker import check_env

from placement_gym.base import UserError
from placement_gym.envs import OBSERVED, DevicePlacementEnv, Observation, SimulatedEnv, edge_index
from placement_gym.envs.device_table import DEVICE_FEATURES, EDGE_FEATURES
from placement_gym.hardware import DeviceSpec

STATIC = {
    *("device_mask", "memory_pool", "devices", "links", "unit_times", "unit_bytes", "supported"),
    *("edge_attr", "scale"),
}
PADDING = {"max_nodes": 6, "max_edges": 7, "max_devices": 5}


def limited_env(**kwargs: Any) -> DevicePlacementEnv:
    backend = diamond_backend(problem_on(LIMITED))
    return DevicePlacementEnv(backend, **{"observe_devices": True, **kwargs})


def observed(**kwargs: Any) -> Observation:
    return limited_env(**kwargs).reset()[0]


def column(observation: Observation, name: str) -> list[float]:
    values: list[float] = observation["devices"][:, DEVICE_FEATURES.index(name)].tolist()
    return values


def test_observations_have_these_keys_only_if_asked() -> None:
    plain = set(limited_env(observe_devices=False).reset()[0])
    assert not (STATIC | {"room"}) & plain
    assert set(observed()) == plain | STATIC | {"room"}
    without_graph = set(observed(observe_graph=False))
    assert (STATIC | {"room"}) & without_graph == {"room"}


def test_times_of_all_devices_have_one_scale() -> None:
    observation = observed()
    scale = np.mean(UNIT_MS)
    assert observation["scale"] == pytest.approx(np.log10(scale) / 8.0)
    np.testing.assert_allclose(np.expm1(observation["unit_times"]) * scale, UNIT_MS, rtol=1e-6)
    means = np.expm1(column(observation, "mean_ms"))
    assert means == pytest.approx(np.mean(UNIT_MS, axis=0) / scale)


def test_limits_and_bytes_are_shares_of_the_model() -> None:
    observation = observed()
    figures = {"limit": [1.0, 0.5], "limited": [0.0, 1.0], "host": [1.0, 0.0]}
    assert {name: column(observation, name) for name in figures} == figures
    assert observation["unit_bytes"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_room_follows_the_placement_and_may_be_negative() -> None:
    env = limited_env(horizon=2)
    assert env.reset()[0]["room"].tolist() == pytest.approx([0.0, 0.5])
    assert env.step([0, 1, 0, 0])[0]["room"].tolist() == pytest.approx([0.2, 0.3])
    assert env.step([0, 0, 1, 1])[0]["room"].tolist() == pytest.approx([0.7, -0.2])


def test_transfers_follow_from_edges_and_links() -> None:
    observation = observed()
    edges, links = np.expm1(observation["edge_attr"]), np.expm1(observation["links"])
    scale_ms = 10.0 ** (8.0 * observation["scale"])
    tensors, size = (edges[:, EDGE_FEATURES.index(name)] for name in ("tensors", "size"))
    told = tensors[:, None, None] * links[..., 0] + size[:, None, None] * links[..., 1]
    ms = told * scale_ms
    of_edge = np.array(TRANSFER_MS)[[0, 0, 1, 2]]
    np.testing.assert_allclose(ms[:, 0, 1], of_edge, rtol=1e-6)
    np.testing.assert_allclose(ms[:, 1, 0], of_edge, rtol=1e-6)
    assert not ms[:, [0, 1], [0, 1]].any()
    mean = edges[:, EDGE_FEATURES.index("mean_ms")] * scale_ms
    np.testing.assert_allclose(mean, of_edge, rtol=1e-6)


def test_edges_of_a_real_model_have_the_transfers_of_its_costs() -> None:
    env = SimulatedEnv(model="tiny", devices="cpu+igpu+npu", granularity="op", observe_devices=True)
    observation, _ = env.reset()
    costs, tensors = env.cost_table(), env.problem.units.graph.tensors
    edges, links = np.expm1(observation["edge_attr"][:, 1:]), np.expm1(observation["links"])
    told = np.einsum("ec,abc->eab", edges, links)
    expected = np.zeros_like(told)
    tensor, reader = tensors.readings()
    for edge, (source, target) in enumerate(edge_index(observation).T):
        for one in tensor[(tensors.source[tensor] == source) & (reader == target)]:
            if one in env.problem.units.graph.movable:
                expected[edge] += costs.transfer_ms[one]
    scale_ms = 10.0 ** (8.0 * observation["scale"])
    np.testing.assert_allclose(told * scale_ms, expected, rtol=1e-5)
    assert expected.any()


def test_without_costs_limits_are_told_and_times_are_zero() -> None:
    env = DevicePlacementEnv(FakeBackend(problem=problem_on(LIMITED)), observe_devices=True)
    observation, _ = env.reset()
    assert column(observation, "limit") == [1.0, 0.5]
    assert not any(observation[key].any() for key in ("unit_times", "links", "edge_attr"))
    assert env.observation_space.contains(observation)


def test_unsupported_units_are_told() -> None:
    backend = diamond_backend(problem_on(refused=[(2, 1)]))
    observation, _ = DevicePlacementEnv(backend, observe_devices=True).reset()
    assert observation["supported"].tolist() == [[1, 1], [1, 1], [1, 0], [1, 1]]


def test_padding_is_zero() -> None:
    padded, plain = observed(**PADDING), observed()
    for key in STATIC | {"room"}:
        inside = tuple(slice(n) for n in plain[key].shape)
        np.testing.assert_array_equal(padded[key][inside], plain[key])
        rest = padded[key].copy()
        rest[inside] = 0
        assert not rest.any()
    assert padded["links"].shape == (5, 5, 2)


@pytest.mark.filterwarnings("ignore:.*A Box observation space")
@pytest.mark.parametrize("options", [{}, PADDING, {"observe_graph": False}])
def test_the_spaces_are_valid(options: dict[str, int]) -> None:
    check_env(limited_env(**options), skip_render_check=True)


@pytest.mark.parametrize("env_id", ["DevicePlacementSim-v0", "DevicePlacementPerUnitSim-v0"])
def test_sets_of_devices_padded_alike_share_their_spaces(env_id: str) -> None:
    one, two = (
        gym.make(env_id, model="tiny", devices=devices, observe_devices=True, max_devices=4)
        for devices in ("cpu+dgpu", "cpu+igpu+npu")
    )
    assert one.observation_space == two.observation_space
    assert one.action_space == two.action_space


def test_padded_device_is_masked_and_means_the_reference() -> None:
    env = limited_env(max_devices=3)
    env.reset()
    assert env.action_masks().reshape(4, 3).tolist() == [[True, True, False]] * 4
    observation, *_, info = env.step([2, 1, 2, 0])
    assert placed(observation).tolist() == [0, 1, 0, 0]
    assert info["feasible"]
    with pytest.raises(UserError, match="from 0 to"):
        env.step([3, 0, 0, 0])


def test_a_padded_device_of_one_unit_means_the_reference_device() -> None:
    env = gym.make("DevicePlacementPerUnitSim-v0", model="tiny", max_devices=4)
    env.reset(seed=0)
    observation, *_ = env.step(3)
    assert placed(observation)[0] == 0
    assert env.get_wrapper_attr("action_masks")().tolist() == [True, True, False, False]


@pytest.mark.parametrize("number", [1, 17])
def test_too_few_or_too_many_devices_to_pad_to_are_refused(number: int) -> None:
    with pytest.raises(UserError, match="devices"):
        limited_env(max_devices=number)


def test_graph_table_has_devices_if_observed_or_requested() -> None:
    (known,) = limited_env().graph_table().values()
    env = limited_env(observe_devices=False)
    (plain,), (asked,) = env.graph_table().values(), env.graph_table(devices=True).values()
    assert {OBSERVED.get(key, key) for key in set(known) - set(plain)} == STATIC
    for key in set(known) - set(plain):
        np.testing.assert_array_equal(asked[key], known[key])


def test_graph_ids_tell_limits_apart_where_they_are_observed() -> None:
    def graph_id(share: float, observe: bool) -> int:
        devices = (DeviceSpec("CPU"), DeviceSpec("GPU", weight_share=share))
        backend = diamond_backend(problem_on(devices))
        return DevicePlacementEnv(backend, observe_devices=observe).observer.graph_id

    assert graph_id(0.3, True) != graph_id(0.5, True)
    assert graph_id(0.3, False) == graph_id(0.5, False)
