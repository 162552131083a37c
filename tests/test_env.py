from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import (
    CPU_GPU,
    TENSOR_BYTES,
    TRANSFER_MS,
    FakeBackend,
    assignment,
    diamond_backend,
    diamond_problem,
)
from stable_baselines3 import PPO

import placement_gym  # noqa: F401  registers the ids
from placement_gym.backends.cached import CachedBackend
from placement_gym.devices import DeviceSpec
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.placement import Placement

INFO_KEYS = {
    "latency_ms",
    "reference_ms",
    "best_single_ms",
    "best_single_unlimited_ms",
    "speedup",
    "speedup_vs_best_single",
    "latency_p90_ms",
    "noise",
    "n_submodels",
    "n_submodels_expected",
    "n_transfers",
    "transfer_bytes",
    "memory_bytes",
    "compile_s",
    "measure_s",
    "cached",
    "feasible",
    "error",
    "placement_hash",
    "devices",
    "testbed",
}
LIMITED = (DeviceSpec("CPU"), DeviceSpec("GPU", weight_share=0.5))


def diamond_env(**kwargs: Any) -> DevicePlacementEnv:
    return DevicePlacementEnv(diamond_backend(), **kwargs)


def played(env: gym.Env[Any, Any], *actions: Any) -> tuple[list[float], list[dict[str, Any]]]:
    """Rewards, and infos from the reset on, of one episode."""
    infos = [env.reset(seed=0)[1]]
    rewards = []
    for action in actions:
        _, reward, _, _, info = env.step(action)
        rewards.append(float(reward))
        infos.append(info)
    return rewards, infos


def test_simulated_latency_adds_unit_times_and_one_transfer_a_tensor_and_destination() -> None:
    _, (_, info) = played(diamond_env(), [0, 1, 1, 0])
    assert info["latency_ms"] == pytest.approx(4.0 + 2.0 + 3.0 + 1.0 + sum(TRANSFER_MS))
    assert info["n_transfers"] == 3
    assert info["transfer_bytes"] == sum(TENSOR_BYTES)


def test_info_accounts_for_the_placement() -> None:
    _, (start, info) = played(diamond_env(), [1, 1, 0, 0])
    assert start["reference_ms"] == info["reference_ms"] == 10.0
    assert info["best_single_ms"] == 10.0
    assert info["latency_ms"] == pytest.approx(1.0 + 2.0 + 1.0 + 1.0 + 0.5 + 0.25)
    assert info["speedup"] == pytest.approx(10.0 / info["latency_ms"])
    assert info["speedup_vs_best_single"] == pytest.approx(10.0 / info["latency_ms"])
    assert info["memory_bytes"].tolist() == [700, 300]
    assert (info["feasible"], info["error"], info["testbed"]) == (True, "", False)
    assert list(info["devices"]) == ["CPU", "GPU"]


def test_the_best_single_device_is_the_fastest_not_the_first() -> None:
    env = DevicePlacementEnv(FakeBackend(lambda a: 10.0 - 2 * float(a.mean())))
    _, (start,) = played(env)
    assert (start["latency_ms"], start["best_single_ms"]) == (10.0, 8.0)
    assert start["speedup_vs_best_single"] == pytest.approx(0.8)


def test_reset_places_everything_on_the_first_device_that_runs_the_whole_model() -> None:
    problem = diamond_problem(refused=[(2, 0)])
    observation, info = DevicePlacementEnv(FakeBackend(problem=problem)).reset()
    assert observation["placement"].tolist() == [1, 1, 1, 1]
    assert (info["latency_ms"], info["speedup"]) == (info["reference_ms"], 1.0)


@pytest.mark.parametrize("options", [{}, {"reward": "improvement"}, {"horizon": 3}])
def test_info_keys_never_change(options: dict[str, Any]) -> None:
    env = DevicePlacementEnv(FakeBackend(failures=[[1, 1, 1, 1]]), **options)
    _, infos = played(env, [0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1])
    assert [set(info) for info in infos] == [INFO_KEYS] * 4


def test_infos_share_no_memory() -> None:
    _, (first, second) = played(diamond_env(), [0, 0, 0, 0])
    assert not np.shares_memory(first["memory_bytes"], second["memory_bytes"])


def test_equal_placements_have_equal_hashes() -> None:
    _, infos = played(diamond_env(horizon=3), [0, 1, 0, 1], [0, 1, 1, 1], [0, 1, 0, 1])
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
    rewards, infos = played(env, [1, 1, 0, 0], [0, 0, 0, 0])
    share = infos[1]["latency_ms"] / 10.0
    assert rewards == pytest.approx([1 - share, share - 1])


@pytest.mark.parametrize(
    "action",
    [
        [0, 0, 0],
        [0, 0, 0, 0, 0],
        [[0, 0, 0, 0]],
        0,
        [0, 0, 0, 2],
        [-1, 0, 0, 0],
    ],
    ids=["short", "long", "two-dimensional", "scalar", "no-such-device", "negative"],
)
def test_an_action_of_wrong_shape_or_range_is_refused(action: Any) -> None:
    env = diamond_env()
    env.reset()
    with pytest.raises(ValueError, match=r"4 device indices from 0 to 1"):
        env.step(action)


def test_an_action_between_two_devices_is_refused() -> None:
    env = diamond_env()
    env.reset()
    with pytest.raises(ValueError):
        env.step(np.array([0.0, 0.5, 1.0, 0.0]))


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
    ("problem", "reason"),
    [
        (diamond_problem(LIMITED), "GPU holds"),
        (diamond_problem(refused=[(3, 1)]), "GPU does not support unit 'd'"),
    ],
    ids=["memory", "operator"],
)
def test_an_infeasible_placement_costs_ten_references_and_ends_nothing(
    problem: Any, reason: str
) -> None:
    env = DevicePlacementEnv(diamond_backend(problem), horizon=3)
    env.reset()
    observation, reward, terminated, truncated, info = env.step([1, 1, 1, 1])
    assert reward == pytest.approx(np.log(0.1))
    assert info["latency_ms"] == pytest.approx(10 * info["reference_ms"])
    assert (info["feasible"], terminated, truncated) == (False, False, False)
    assert reason in info["error"]
    assert observation["placement"].tolist() == [1, 1, 1, 1]
    assert env.step([0, 0, 0, 0])[4]["feasible"]


def test_weights_that_just_fit_are_feasible() -> None:
    env = DevicePlacementEnv(diamond_backend(diamond_problem(LIMITED)))
    feasible = [played(env, action)[1][1]["feasible"] for action in ([1, 0, 0, 1], [0, 1, 0, 1])]
    assert feasible == [True, False]


def test_a_failure_at_run_time_is_data() -> None:
    env = DevicePlacementEnv(FakeBackend(failures=[[0, 1, 0, 1]]))
    rewards, (_, info) = played(env, [0, 1, 0, 1])
    assert (info["feasible"], info["error"]) == (False, "the device caught fire")
    assert rewards == pytest.approx([np.log(0.1)])


def test_the_best_single_device_is_one_that_holds_the_model() -> None:
    backend = FakeBackend(lambda a: 10.0 - 2 * float(a.mean()), diamond_problem(LIMITED))
    _, (start,) = played(DevicePlacementEnv(backend))
    assert (start["best_single_ms"], start["best_single_unlimited_ms"]) == (10.0, 8.0)


def test_everything_stays_finite_where_no_device_holds_the_model() -> None:
    halves = tuple(DeviceSpec(name, weight_share=0.5) for name in ("CPU", "GPU"))
    env = DevicePlacementEnv(diamond_backend(diamond_problem(halves)))
    _, infos = played(env, [1, 0, 0, 1])
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


def test_a_repeated_placement_is_answered_from_memory() -> None:
    backend = FakeBackend()
    env = DevicePlacementEnv(CachedBackend(backend), horizon=2)
    _, infos = played(env, [0, 1, 0, 1], [0, 1, 0, 1])
    assert backend.calls.count(("score", (0, 1, 0, 1))) + backend.asked("evaluate") == 1
    assert [info["cached"] for info in infos[1:]] == [False, True]
    assert infos[1]["latency_ms"] == infos[2]["latency_ms"]


def test_actions_of_padded_units_are_ignored() -> None:
    env = diamond_env(max_nodes=6)
    infos = [played(env, [0, 1, 0, 1, *tail])[1][1] for tail in ([0, 0], [1, 1])]
    assert infos[0]["placement_hash"] == infos[1]["placement_hash"]
    assert infos[0]["latency_ms"] == infos[1]["latency_ms"]
    assert infos[0]["placement_hash"] == played(diamond_env(), [0, 1, 0, 1])[1][1]["placement_hash"]


def test_the_placement_of_the_env_is_the_last_one_tried() -> None:
    env = diamond_env()
    played(env, [0, 1, 1, 0])
    placement = env.placement()
    assert isinstance(placement, Placement)
    assert placement.units == {"a": "CPU", "b": "GPU", "c": "GPU", "d": "CPU"}


def test_the_graph_table_holds_what_observations_repeat() -> None:
    env = diamond_env(max_nodes=5, max_edges=6)
    observation, _ = env.reset()
    table = env.graph_table()
    static = table[int(observation["graph_id"][0])]
    assert set(static) == {"x", "edge_index", "edge_mask", "node_mask"}
    for key, value in static.items():
        np.testing.assert_array_equal(value, observation[key])


def test_closing_reaches_the_backend() -> None:
    backend = FakeBackend()
    env = DevicePlacementEnv(backend)
    env.close()
    env.close()
    assert backend.closed


@pytest.mark.parametrize(
    ("argument", "remedy"),
    [
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"reward": "latency"}, "log_speedup"),
        ({"render_mode": "svg"}, "ansi"),
        ({"max_nodes": 3}, "4 units and 4 edges"),
        ({"max_edges": 3}, "4 units and 4 edges"),
    ],
)
def test_an_argument_out_of_range_is_refused_with_the_remedy(
    argument: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ValueError, match=remedy):
        diamond_env(**argument)


@pytest.mark.parametrize(
    ("env_id", "argument", "remedy"),
    [
        ("DevicePlacementSim-v0", {"granularity": "layer"}, "colocated"),
        ("DevicePlacementSim-v0", {"graph": "pruned"}, "folded"),
        ("DevicePlacementSim-v0", {"devices": "CPU,CPU"}, "distinct"),
        ("DevicePlacement-v0", {"split": "half"}, "alias"),
        ("DevicePlacement-v0", {"repeats": 1}, "repeats >= 2"),
        ("DevicePlacement-v0", {"warmup": -1}, "warmup"),
    ],
)
def test_make_refuses_an_argument_out_of_range(
    env_id: str, argument: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ValueError, match=remedy):
        gym.make(env_id, model="tiny", **argument)


def test_ansi_shows_the_latency_the_devices_and_a_letter_for_each_unit() -> None:
    env = diamond_env(render_mode="ansi")
    played(env, [0, 1, 1, 0])
    text = env.render()
    assert isinstance(text, str)
    title, *rows = text.splitlines()
    assert "diamond" in title
    assert "10.875 ms" in title
    assert any("CPU" in row and "2 units" in row for row in rows)
    assert any("GPU" in row and "2 units" in row for row in rows)
    assert rows[-1] == "ABBA"


def test_ansi_says_why_a_placement_is_infeasible() -> None:
    env = DevicePlacementEnv(diamond_backend(diamond_problem(LIMITED)), render_mode="ansi")
    played(env, [1, 1, 1, 1])
    assert "infeasible, GPU holds" in str(env.render())


def test_ansi_names_a_test_bed() -> None:
    env = gym.make("DevicePlacementSim-v0", model="tiny", devices="cpu-testbed", render_mode="ansi")
    _, info = env.reset()
    assert "(test bed)" in str(env.render())
    assert info["testbed"]


def test_human_mode_prints_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    env = diamond_env(render_mode="human", horizon=2)
    played(env, [0, 1, 1, 0], [1, 1, 1, 1])
    printed = capsys.readouterr().out.splitlines()
    assert "ABBA" in printed
    assert "BBBB" in printed


def test_rgb_array_is_a_picture_that_shows_the_placement() -> None:
    env = diamond_env(render_mode="rgb_array", horizon=2)
    frames = []
    env.reset()
    for action in ([0, 0, 0, 0], [0, 1, 1, 0]):
        env.step(action)
        frames.append(env.render())
    for frame in frames:
        assert isinstance(frame, np.ndarray)
        assert frame.dtype == np.uint8
        assert frame.ndim == 3
        assert frame.shape[2] == 3
    assert not np.array_equal(frames[0], frames[1])


def test_the_toy_has_one_best_placement_and_it_is_mixed() -> None:
    env = gym.make("DevicePlacementSim-v0", model="tiny").unwrapped
    assert isinstance(env, DevicePlacementEnv)
    every = itertools.product(range(2), repeat=env.problem.n_units)
    ranked = sorted((env.backend.evaluate(assignment(a)).latency_ms, a) for a in every)
    assert ranked[0][0] < ranked[1][0]
    assert len(set(ranked[0][1])) == 2


@pytest.mark.parametrize("env_id", ["DevicePlacementSim-v0", "DevicePlacement-v0"])
def test_a_chain_that_collapses_to_one_unit_can_be_placed(env_id: str) -> None:
    import openvino as ov
    from openvino import opset13 as ops

    inputs = ops.parameter((1, 8), np.float32, name="inputs")
    chain = ov.Model([ops.result(ops.tanh(ops.relu(inputs)))], [inputs], "chain")
    env = gym.make(env_id, model=chain, devices="cpu-testbed")
    observation, _ = env.reset()
    assert env.observation_space.contains(observation)
    assert env.step(np.array([1]))[4]["feasible"]


def test_ppo_learns_on_the_simulated_env() -> None:
    env = gym.make("DevicePlacementSim-v0", model="tiny")
    agent = PPO("MultiInputPolicy", env, n_steps=64, batch_size=32, learning_rate=1e-2, seed=0)
    agent.learn(768)
    observation, start = env.reset(seed=0)
    action, _ = agent.predict(observation, deterministic=True)
    _, _, _, _, info = env.step(action)
    assert info["latency_ms"] < 0.5 * start["latency_ms"]


def test_ppo_makes_an_env_from_its_id_alone() -> None:
    agent = PPO("MultiInputPolicy", "DevicePlacementSim-v0", n_steps=4, batch_size=4, seed=0)
    agent.learn(4)
    assert agent.num_timesteps == 4


def test_the_reference_is_the_first_device_listed() -> None:
    swapped = diamond_problem(CPU_GPU[::-1])
    observation, info = DevicePlacementEnv(FakeBackend(problem=swapped)).reset()
    assert observation["placement"].tolist() == [0, 0, 0, 0]
    assert list(info["devices"]) == ["GPU", "CPU"]


def test_the_sequence_length_can_be_an_argument() -> None:
    named = gym.make("DevicePlacementSim-v0", model="bert-8")
    given = gym.make("DevicePlacementSim-v0", model="bert", sequence_length=8)
    assert placement_env(given).problem.fingerprint() == placement_env(named).problem.fingerprint()
