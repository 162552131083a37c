from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes import (
    LIMITED,
    TENSOR_BYTES,
    TRANSFER_MS,
    FakeBackend,
    assignment,
    diamond_backend,
    diamond_env,
    diamond_problem,
    placed,
    play_actions,
)

from placement_gym.base import UserError
from placement_gym.bench.run import BudgetedBackend, BudgetReached
from placement_gym.envs import DevicePlacementEnv, edge_index, observe_features, read_graph_id
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Placement

NO_TENSORS = (DeviceSpec("CPU"), DeviceSpec("GPU", allocation_bytes=0))
INFO_KEYS = {
    *("latency_ms", "reference_ms", "best_single_ms", "best_single_unlimited_ms", "speedup"),
    *("speedup_vs_best_single", "latency_p90_ms", "noise"),
    *("warning", "interference"),
    *(
        "n_submodels",
        "n_submodels_expected",
        "n_transfers",
        "transfer_bytes",
        "memory_bytes",
        "excess_bytes",
        "compile_s",
    ),
    *("measure_s", "cached", "feasible", "repaired", "error", "placement_hash", "devices"),
    "testbed",
}


def test_info_accounts_for_units_and_transfers() -> None:
    _, (_, there_and_back) = play_actions(diamond_env(), [0, 1, 1, 0])
    assert there_and_back["latency_ms"] == pytest.approx(4.0 + 2.0 + 3.0 + 1.0 + sum(TRANSFER_MS))
    assert there_and_back["n_transfers"] == 3
    assert there_and_back["transfer_bytes"] == sum(TENSOR_BYTES)
    _, (start, info) = play_actions(diamond_env(), [1, 1, 0, 0])
    assert start["reference_ms"] == info["reference_ms"] == info["best_single_ms"] == 10.0
    assert info["latency_ms"] == pytest.approx(1.0 + 2.0 + 1.0 + 1.0 + 0.5 + 0.25)
    assert info["speedup"] == info["speedup_vs_best_single"] == 10.0 / info["latency_ms"]
    assert info["memory_bytes"].tolist() == [700, 300]
    assert (info["feasible"], info["error"], info["testbed"]) == (True, "", False)
    assert list(info["devices"]) == ["CPU", "GPU"]


def test_the_best_single_device_is_the_fastest_not_the_first() -> None:
    env = DevicePlacementEnv(FakeBackend(lambda a: 10.0 - 2 * float(a.mean())))
    _, (start,) = play_actions(env)
    assert (start["latency_ms"], start["best_single_ms"]) == (10.0, 8.0)
    assert start["speedup_vs_best_single"] == pytest.approx(0.8)


def test_reset_places_all_on_the_first_device_that_runs_it_all() -> None:
    problem = diamond_problem(refused=[(2, 0)])
    observation, info = DevicePlacementEnv(FakeBackend(problem=problem)).reset()
    assert placed(observation).tolist() == [1, 1, 1, 1]
    assert (info["latency_ms"], info["speedup"]) == (info["reference_ms"], 1.0)


@pytest.mark.parametrize("options", [{}, {"reward": "improvement"}, {"horizon": 3}])
def test_info_keys_never_change(options: dict[str, Any]) -> None:
    env = DevicePlacementEnv(FakeBackend(failures=[[1, 1, 1, 1]]), **options)
    _, infos = play_actions(env, [0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1])
    assert [set(info) for info in infos] == [INFO_KEYS] * 4


def test_infos_share_no_memory() -> None:
    _, (first, second) = play_actions(diamond_env(), [0, 0, 0, 0])
    assert not np.shares_memory(first["memory_bytes"], second["memory_bytes"])


def test_equal_placements_have_equal_hashes() -> None:
    _, infos = play_actions(diamond_env(horizon=3), [0, 1, 0, 1], [0, 1, 1, 1], [0, 1, 0, 1])
    hashes = [info["placement_hash"] for info in infos]
    assert hashes[1] == hashes[3]
    assert len(set(hashes)) == 3


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_an_episode_lasts_its_horizon(horizon: int) -> None:
    env = diamond_env(horizon=horizon)
    for _ in range(2):
        env.reset()
        ends = [env.step([0, 0, 0, 0])[2:4] for _ in range(horizon)]
        assert ends == [(False, False)] * (horizon - 1) + [(True, False)]


def test_the_reward_sees_the_placement_before() -> None:
    env = diamond_env(reward="improvement", horizon=2)
    rewards, infos = play_actions(env, [1, 1, 0, 0], [0, 0, 0, 0])
    share = infos[1]["latency_ms"] / 10.0
    assert rewards == pytest.approx([1 - share, share - 1])


@pytest.mark.parametrize(
    "action",
    [[0] * 3, [0] * 5, [[0] * 4], 0, [0, 0, 0, 2], [-1, 0, 0, 0], np.array([0.0, 0.5, 1.0, 0.0])],
    ids=["short", "long", "two-dimensional", "scalar", "no-such-device", "negative", "between"],
)
def test_an_action_of_wrong_shape_or_range_is_refused(action: Any) -> None:
    env = diamond_env()
    env.reset()
    with pytest.raises(ValueError, match=r"4 device indices from 0 to 1"):
        env.step(action)


def test_masks_show_which_device_runs_which_unit() -> None:
    problem = diamond_problem(refused=[(1, 1), (3, 1)])
    env = DevicePlacementEnv(FakeBackend(problem=problem), max_nodes=6)
    masks = env.action_masks()
    assert masks.dtype == np.bool_
    assert masks.shape == (int(env.action_space.nvec.sum()),)
    unit_masks = masks.reshape(6, 2)
    assert unit_masks[:4].tolist() == [[True, True], [True, False], [True, True], [True, False]]
    assert unit_masks[4:].all()


@pytest.mark.parametrize(
    ("problem", "reason", "cost"),
    [
        (diamond_problem(LIMITED), "GPU would hold", 10 * (1 + 9 * 0.5)),
        (diamond_problem(refused=[(3, 1)]), "GPU does not support unit 'd'", 10),
        (diamond_problem(NO_TENSORS, refused=[(3, 1)]), "'d' has a larger tensor than GPU", 10),
    ],
    ids=["memory", "operator", "allocation"],
)
def test_infeasible_placement_costs_ten_references(problem: Any, reason: str, cost: float) -> None:
    env = DevicePlacementEnv(diamond_backend(problem), horizon=3)
    env.reset()
    observation, reward, terminated, truncated, info = env.step([1, 1, 1, 1])
    assert reward == pytest.approx(-np.log(cost))
    assert info["latency_ms"] == pytest.approx(10 * info["reference_ms"])
    assert (info["feasible"], terminated, truncated) == (False, False, False)
    assert reason in info["error"]
    assert placed(observation).tolist() == [1, 1, 1, 1]
    assert env.step([0, 0, 0, 0])[4]["feasible"]


def test_weights_that_just_fit_are_feasible() -> None:
    env = DevicePlacementEnv(diamond_backend(diamond_problem(LIMITED)))
    feasible = [
        play_actions(env, action)[1][1]["feasible"] for action in ([1, 0, 0, 1], [0, 1, 0, 1])
    ]
    assert feasible == [True, False]


def test_a_failure_at_run_time_is_data() -> None:
    env = DevicePlacementEnv(FakeBackend(failures=[[0, 1, 0, 1]]))
    rewards, (_, info) = play_actions(env, [0, 1, 0, 1])
    assert (info["feasible"], info["error"]) == (False, "the device caught fire")
    assert rewards == pytest.approx([np.log(0.1)])


def test_the_best_single_device_is_one_that_holds_the_model() -> None:
    backend = FakeBackend(lambda a: 10.0 - 2 * float(a.mean()), diamond_problem(LIMITED))
    _, (start,) = play_actions(DevicePlacementEnv(backend))
    assert (start["best_single_ms"], start["best_single_unlimited_ms"]) == (10.0, 8.0)


def test_everything_stays_finite_where_no_device_holds_the_model() -> None:
    halves = tuple(DeviceSpec(name, weight_share=0.5) for name in ("CPU", "GPU"))
    env = DevicePlacementEnv(diamond_backend(diamond_problem(halves)))
    _, infos = play_actions(env, [1, 0, 0, 1])
    assert infos[1]["feasible"]
    assert infos[1]["best_single_ms"] == pytest.approx(10 * infos[1]["reference_ms"])
    for info in infos:
        numbers = [value for value in info.values() if isinstance(value, float)]
        assert numbers
        assert np.isfinite(numbers).all()


def test_reset_never_measures_again() -> None:
    backend = FakeBackend()
    env = DevicePlacementEnv(backend)
    env.reset()
    env.step([0, 1, 0, 1])
    known = len(backend.calls)
    infos = [env.reset(seed=seed)[1] for seed in range(10)]
    assert len(backend.calls) == known
    assert {info["latency_ms"] for info in infos} == {10.0}


def test_actions_of_padded_units_are_ignored() -> None:
    env = diamond_env(max_nodes=6)
    infos = [play_actions(env, [0, 1, 0, 1, *tail])[1][1] for tail in ([0, 0], [1, 1])]
    infos.append(play_actions(diamond_env(), [0, 1, 0, 1])[1][1])
    for key in ("placement_hash", "latency_ms"):
        assert len({info[key] for info in infos}) == 1


def test_the_placement_is_the_last_one_tried_whatever_its_array() -> None:
    env = diamond_env(max_nodes=4)
    env.reset()
    action = assignment([0, 1, 1, 0])
    info = env.step(action)[4]
    action[:] = 1
    placement = env.placement()
    assert isinstance(placement, Placement)
    assert placement.units == {"a": "CPU", "b": "GPU", "c": "GPU", "d": "CPU"}
    assert env.get_info()["placement_hash"] == info["placement_hash"]


def test_the_graph_table_holds_what_observations_repeat() -> None:
    env = diamond_env(max_nodes=5, max_edges=6)
    observation, _ = env.reset()
    table = env.graph_table()
    static = table[int(read_graph_id(observation)[0])]
    mask = static.pop("action_mask")
    np.testing.assert_array_equal(mask.ravel(), env.action_masks())
    assert set(static) == {"x", "edge_index", "edge_mask", "node_mask"}
    np.testing.assert_array_equal(static["edge_index"], edge_index(observation))
    np.testing.assert_array_equal(observe_features(static["x"]), observation["x"])
    for key in ("edge_mask", "node_mask"):
        np.testing.assert_array_equal(static[key], observation[key])


def test_closing_reaches_the_backend() -> None:
    backend = FakeBackend()
    env = DevicePlacementEnv(backend)
    env.close()
    env.close()
    assert backend.closed


@pytest.mark.parametrize(
    ("argument", "value", "remedy"),
    [
        *(("horizon", value, "integer of at least 1") for value in (0, "abc", 2.5, True)),
        *(("max_nodes", value, "integer of at least 1") for value in (-4, 8.5)),
        ("max_edges", "9", "integer of at least 1"),
        ("observe_graph", "yes", "True or False"),
        ("reward", "latency", "did you mean 'inverse_latency'.*log_speedup"),
        ("reward", "logspeedup", "did you mean 'log_speedup'"),
        ("render_mode", "svg", "ansi"),
        ("render_mode", "rgb-array", "did you mean 'rgb_array'"),
        ("max_nodes", 3, "4 units and 4 edges"),
        ("max_edges", 3, "4 units and 4 edges"),
    ],
)
def test_an_argument_out_of_range_is_refused_with_the_remedy(
    argument: str, value: Any, remedy: str
) -> None:
    with pytest.raises(UserError, match=remedy) as error:
        diamond_env(**{argument: value})
    assert argument in str(error.value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("whole", [np.int64(6), np.int32(6)])
def test_whole_numbers_of_numpy_are_taken(whole: Any) -> None:
    env = diamond_env(horizon=whole, max_nodes=whole, max_edges=whole)
    assert env.observation_space.contains(env.reset()[0])


def test_another_backend_serves_within_its_block_alone() -> None:
    env = diamond_env(repair=True)
    before = env.backend, env.repair, env.on_repair
    counted = BudgetedBackend(env.backend, 1)
    with counted.count_evaluations(env, repair=False):
        assert not env.repair
        env.evaluate(np.array([0, 1, 1, 0]))
        with pytest.raises(BudgetReached):
            env.evaluate(np.array([0, 0, 1, 0]))
    assert counted.evaluations == 1
    assert (env.backend, env.repair, env.on_repair) == before
