"""The batched environment against single ones side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import diamond_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from testbed import worker_of
from vector_play import Vector, same_play
from workload_files import edge, node, write_workload

from placement_gym.base import UserError
from placement_gym.envs import REWARDS, PlacementVectorEnv, SimulatedVectorEnv

ENV_ID = "DevicePlacementSim-v0"
MODEL = "synthetic-layered-30"
LIMITED = [{"name": "CPU"}, {"name": "GPU", "weight_share": 0.45}]
PENALISED = {"preset": "event", "memory": "lifetime", "memory_penalty_ms_per_gb": 50.0}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "horizon": {"horizon": 3},
    "cut": {"horizon": 3, "max_episode_steps": 2},
    "cut at the end": {"horizon": 2, "max_episode_steps": 2},
    "limits": {"devices": LIMITED, "horizon": 2},
    "penalty": {"devices": LIMITED, "schedule": PENALISED},
    "devices": {"devices": LIMITED, "observe_devices": True, "max_devices": 4, "horizon": 2},
    "noise": {"noise": 0.2, "horizon": 2},
    "noise and limits": {"noise": 0.2, "devices": LIMITED, "horizon": 3},
    "padding": {"max_nodes": 50, "max_edges": 99},
    "no graph": {"observe_graph": False},
    "four devices": {"devices": "CPU,GPU.0,GPU.1,NPU"},
    "throughput": {"objective": "throughput"},
    **{name: {"schedule": name} for name in ("event", "list", "giph", "tarnawski-latency")},
    **{name: {"reward": name, "horizon": 2} for name in REWARDS},
}


def batched(k: int, **options: Any) -> Vector:
    return gym.make_vec(ENV_ID, num_envs=k, **({"model": MODEL} | options))


def side_by_side(k: int, **options: Any) -> Vector:
    return gym.make_vec(
        ENV_ID,
        num_envs=k,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        **({"model": MODEL} | options),
    )


def test_make_vec_gives_the_batched_environment() -> None:
    envs = batched(3)
    assert isinstance(envs, SimulatedVectorEnv)
    assert isinstance(side_by_side(2), SyncVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert (envs.num_envs, envs.action_space.shape) == (3, (3, envs.single_action_space.shape[0]))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_a_batch_plays_as_single_environments_do(options: dict[str, Any]) -> None:
    ours, theirs = batched(4, **options), side_by_side(4, **options)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    same_play(ours, theirs, 7, seed=11)


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_a_batch_shows_what_single_environments_do(mode: str) -> None:
    options = {"render_mode": mode, "horizon": 2, "devices": LIMITED}
    ours, theirs = batched(2, **options), side_by_side(2, **options)
    assert ours.render_mode == mode
    actions = np.stack([np.zeros(30, np.int64), np.ones(30, np.int64)])
    for envs in (ours, theirs):
        envs.reset(seed=0)
        envs.step(actions[:, : envs.single_action_space.shape[0]])
    for mine, its in zip(ours.render() or (), theirs.render() or (), strict=True):
        np.testing.assert_array_equal(mine, its)
    assert batched(2).render() is None


def test_a_batch_prints_its_placements_as_single_environments_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = []
    for envs in (batched(2, render_mode="human"), side_by_side(2, render_mode="human")):
        envs.reset(seed=0)
        envs.action_space.seed(0)
        envs.step(envs.action_space.sample())
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""


@pytest.mark.parametrize("env_id", [ENV_ID, "DevicePlacementStream-v0"])
def test_a_limit_of_steps_must_be_a_positive_integer(env_id: str) -> None:
    with pytest.raises(UserError, match="max_episode_steps must be an integer of at least 1"):
        gym.make_vec(env_id, num_envs=2, max_episode_steps=0)


@pytest.mark.parametrize("k", [1, 2, 9, 33])
def test_any_number_of_environments_plays_as_single_ones_do(k: int) -> None:
    options = {"horizon": 2, "noise": 0.1, "observe_graph": False}
    same_play(batched(k, **options), side_by_side(k, **options), 5, seed=0)


def test_workload_with_limits_plays_as_single_ones_do(tmp_path: Path) -> None:
    nodes = [node(i, 9.0, 1.0 + i, size=28.0 * i, supportedOnFpga=i != 4) for i in range(6)]
    edges = [edge(i, i + 1, 0.3) for i in range(5)]
    path = write_workload(tmp_path / "row.json", nodes, edges)
    ours, theirs = (kind(8, model=path, horizon=2) for kind in (batched, side_by_side))
    same_play(ours, theirs, 6, seed=5)


def test_batch_holds_feasible_and_infeasible_placements() -> None:
    envs = batched(2, devices=LIMITED, horizon=2)
    _, start = envs.reset()
    n_units = envs.single_action_space.shape[0]
    info = envs.step(np.stack([np.zeros(n_units, int), np.ones(n_units, int)]))[4]
    assert info["feasible"].tolist() == [True, False]
    expected = [1.0, 10.0] * start["reference_ms"]
    np.testing.assert_allclose(info["latency_ms"], expected)


def test_environments_end_and_restart_in_the_same_step() -> None:
    envs = batched(2, horizon=3)
    _, start = envs.reset()
    ones = np.ones_like(envs.action_space.sample())
    steps = [envs.step(ones) for _ in range(6)]
    assert [step[2].tolist() for step in steps] == [[False] * 2, [False] * 2, [True] * 2] * 2
    assert not any(step[3].any() for step in steps)
    assert ["final_info" in step[4] for step in steps] == [False, False, True] * 2
    ended = steps[2]
    assert ended[0]["step"].tolist() == [[0], [0]]
    assert not ended[0]["placement"].any()
    np.testing.assert_array_equal(ended[4]["latency_ms"], start["latency_ms"])
    assert ended[4]["final_obs"][0]["step"].tolist() == [1.0]
    assert ended[4]["final_obs"][0]["placement"].all()


@pytest.mark.parametrize("seed", [[5, 5, 8], [1, None, 2], None], ids=str)
def test_seeds_of_a_list_go_to_the_environments_in_turn(seed: list[int | None] | None) -> None:
    """Where a seed is None the noise of that environment goes on, as it does in a single one."""
    options = {"noise": 0.3, "horizon": 2}
    ours, theirs = batched(3, **options), side_by_side(3, **options)
    same_play(ours, theirs, 3, seed=3)
    same_play(ours, theirs, 4, seed=seed)


@pytest.mark.parametrize("seed", [[1], [1, 2, 3]])
def test_a_list_of_seeds_must_have_one_for_each_environment(seed: list[int]) -> None:
    with pytest.raises(ValueError, match="seed"):
        batched(2).reset(seed=seed)


def test_some_environments_alone_cannot_be_reset() -> None:
    with pytest.raises(ValueError, match="reset together"):
        batched(2).reset(options={"reset_mask": np.array([True, False])})


N = 30
GOOD = np.zeros((2, N), dtype=np.int64)


WRONG = {
    "one": GOOD[0],
    "few rows": GOOD[:1],
    "many rows": np.zeros((3, N), dtype=np.int64),
    "few units": GOOD[:, 1:],
    "three-dimensional": GOOD[:, :, None],
    "no such device": GOOD + 2,
    "negative": GOOD - 1,
    "one of many": np.vstack([GOOD[0], np.eye(1, N, N - 1, dtype=np.int64) * 2]),
    "one of many is negative": np.vstack([GOOD[0], -np.eye(1, N, N - 1, dtype=np.int64)]),
    "between": GOOD + 0.5,
    "bool": GOOD == 0,
    "scalar": 0,
}


@pytest.mark.parametrize("actions", WRONG.values(), ids=WRONG.keys())
def test_wrong_actions_are_refused_with_what_is_right(actions: Any) -> None:
    envs = batched(2, granularity="op")
    envs.reset()
    with pytest.raises(ValueError, match=r"30\)? device indices from 0 to 1"):
        envs.step(actions)


def test_later_steps_leave_earlier_results_alone() -> None:
    envs = batched(2, horizon=5)
    envs.reset()
    ones = np.ones_like(envs.action_space.sample())
    first = envs.step(ones)
    kept = first[0]["placement"].copy(), first[4]["latency_ms"].copy()
    envs.step(0 * ones)
    np.testing.assert_array_equal(first[0]["placement"], kept[0])
    np.testing.assert_array_equal(first[4]["latency_ms"], kept[1])


def test_what_a_caller_does_to_an_info_changes_no_reward() -> None:
    envs = batched(2, horizon=5, reward="improvement")
    ones = np.ones_like(envs.action_space.sample())
    envs.reset()
    expected = envs.step(ones)[1]
    _, info = envs.reset()
    info["latency_ms"] *= 2.0
    np.testing.assert_array_equal(envs.step(ones)[1], expected)


def test_wrong_arguments_are_refused_as_by_one_environment() -> None:
    with pytest.raises(TypeError, match="colour"):
        batched(2, colour="blue")
    with pytest.raises(ValueError, match="log_speedup"):
        batched(2, reward="colour")
    counts: tuple[Any, ...] = (0, -1, 2.5)
    for k in counts:
        with pytest.raises(UserError, match="num_envs must be an integer of at least 1"):
            batched(k)
    for horizon in (*counts, "two"):
        with pytest.raises(UserError, match="horizon must be an integer of at least 1"):
            PlacementVectorEnv(diamond_env(), 2, horizon=horizon)


def test_a_horizon_may_be_a_float_such_as_1e3() -> None:
    assert repr(PlacementVectorEnv(diamond_env(), 2, horizon=1e3).horizon) == "1000"  # type: ignore[arg-type]
    env: Any = gym.make("DevicePlacementSim-v0", model="tiny", horizon=1e3)
    assert repr(env.unwrapped.horizon) == "1000"
    with pytest.raises(UserError, match="horizon must be an integer"):
        gym.make("DevicePlacementSim-v0", model="tiny", horizon=1.5)


def test_measured_placements_share_one_reference() -> None:
    options: dict[str, Any] = {"devices": "cpu-testbed", "repeats": 2, "isolate": False}
    envs: Any = gym.make_vec("DevicePlacement-v0", 3, model="tiny", **options).unwrapped
    backend = envs.env.backend.inner
    worker = worker_of(backend)
    reference = worker.reference
    envs.reset(seed=0)
    rows = np.array([[0] * 7, [1] * 7, [0, 1] * 3 + [0]])
    _, rewards, terminated, _, info = envs.step(rows)
    assert rewards[0] == 0.0
    assert terminated.all()
    assert info["final_info"]["feasible"].all()
    assert worker.reference is reference
    assert {row.tobytes() for row in rows} <= envs.env.backend.seen.keys()
    envs.close()
