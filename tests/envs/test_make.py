"""Environments from their ids: arguments, built-in models, and learning on them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from fakes import CPU_GPU, FakeBackend, diamond_problem, placed
from openvino import opset13 as ops
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from workload_files import edge, node, write_workload

from placement_gym.base import UserError
from placement_gym.bench.run import BenchEnv
from placement_gym.cli import main
from placement_gym.envs import DevicePlacementEnv, find_env_spec, placement_env
from placement_gym.graph import extract
from placement_gym.models import load_model

HERE: dict[str, dict[str, Any]] = {
    "DevicePlacementSim-v0": {},
    "DevicePlacement-v0": {"isolate": False},
}
"""Arguments with which environments start no process."""


@pytest.mark.parametrize(
    ("env_id", "argument", "remedy"),
    [
        ("DevicePlacementSim-v0", {"devices": "CPU,CPU"}, "distinct"),
        ("DevicePlacementSim-v0", {"granularity": "colocate"}, "did you mean 'colocated'"),
        ("DevicePlacementSim-v0", {"graph": "fold"}, "did you mean 'folded'"),
        ("DevicePlacementSim-v0", {"schedule": "seriall"}, "did you mean 'serial'"),
        ("DevicePlacementSim-v0", {"objective": "troughput"}, "did you mean 'throughput'"),
        ("DevicePlacementSim-v0", {"reward": []}, r"reward .*one of .*log_speedup.*\[\]"),
        ("DevicePlacementSim-v0", {"schedule": -1}, "schedule .*one of .*-1"),
        ("DevicePlacementSim-v0", {"schedule": {"preset": []}}, r"schedule .*one of .*\[\]"),
        ("DevicePlacementSim-v0", {"decisions": None}, "decisions .*'placement'.*None"),
        ("DevicePlacementSim-v0", {"noise": "a lot"}, "noise .*number.*'a lot'"),
        ("DevicePlacementSim-v0", {"noise": -0.1}, "noise .*at least 0"),
        ("DevicePlacementSim-v0", {"noise": 1e300}, "noise .*at most 10"),
        ("DevicePlacementSim-v0", {"horizon": 10**30}, "horizon .* at most 2147483647"),
        (
            "DevicePlacementSim-v0",
            {"schedule": {"preset": "event", "op_gap_ms": 1e308}},
            "op_gap_ms .*at most",
        ),
        (
            "DevicePlacementSim-v0",
            {"devices": [{"name": "CPU", "memory_bytes": 10**400}]},
            "memory_bytes .* at most .* out of range",
        ),
        ("DevicePlacement-v0", {"split": "half", "isolate": False}, "alias"),
        ("DevicePlacement-v0", {"split": "heteros", "isolate": False}, "did you mean 'hetero'"),
        ("DevicePlacement-v0", {"repeats": 1}, "repeats .*at least 2"),
        ("DevicePlacement-v0", {"repeats": 2.5}, "repeats .*integer"),
        ("DevicePlacement-v0", {"warmup": -1}, "warmup .*at least 0"),
        ("DevicePlacement-v0", {"cache": "no"}, "cache .*True or False"),
    ],
)
def test_make_refuses_an_argument_out_of_range(
    env_id: str, argument: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(UserError, match=remedy):
        gym.make(env_id, model="tiny", **argument)


def pass_input_on() -> ov.Model:
    given = ops.parameter([1, 8], np.float32)
    return ov.Model([ops.result(given)], [given], "empty")


@pytest.mark.parametrize("env_id", HERE)
def test_a_model_without_operators_is_refused(env_id: str) -> None:
    with pytest.raises(UserError, match="has no operators: nothing to place"):
        gym.make(env_id, model=ov.Model([], [], "empty"), devices="cpu-testbed", **HERE[env_id])
    with pytest.raises(UserError, match="nothing to place"):
        gym.make("DevicePlacementSim-v0", model=pass_input_on())


def test_a_reference_that_takes_no_time_is_refused(tmp_path: Path) -> None:
    nodes = [node(i, cpu_ms=0.0) for i in range(2)]
    path = write_workload(tmp_path / "free.json", nodes, [edge(0, 1)])
    with pytest.raises(UserError, match="the model takes 0 ms on CPU"):
        gym.make("DevicePlacementSim-v0", model=path, devices="1cpu+1acc")


def test_costs_with_which_a_placement_could_take_no_time_are_refused(tmp_path: Path) -> None:
    for free, refused in ((1, False), (2, True)):
        nodes = [node(i, cpu_ms=1.0, acc_ms=float(i >= free)) for i in range(2)]
        path = write_workload(tmp_path / "free.json", nodes, [edge(0, 1)])
        with pytest.raises(UserError, match="could take no time") if refused else nullcontext():
            gym.make("DevicePlacementSim-v0", model=path, devices="1cpu+1acc")


@pytest.mark.parametrize(
    ("device", "nearest"),
    [
        *(("GPUU", "GPU"), ("gpu", "GPU"), ("GPUU.1", "GPU"), ("NPUU", "NPU"), ("XPU", "[CGN]PU")),
        *(("ACC.0", ""), ("hsdag-papr", "hsdag-paper")),
    ],
)
def test_simulated_device_of_an_unknown_kind_is_refused(device: str, nearest: str) -> None:
    with pytest.raises(UserError, match=f"{device!r}.*'roofline'.*costs=.*{nearest}"):
        gym.make("DevicePlacementSim-v0", model="tiny", devices=["CPU", device])
    wrong = {"name": device, "roofline": "iGPUU"}
    with pytest.raises(UserError, match="did you mean 'iGPU'"):
        gym.make("DevicePlacementSim-v0", model="tiny", devices=["CPU", wrong])


def test_a_device_with_an_index_or_a_roofline_is_taken() -> None:
    for name in ("GPU.3", "NPU", "CPU.1"):
        env = gym.make("DevicePlacementSim-v0", model="tiny", devices=["CPU", name])
        assert env.reset()[1]["devices"] == ("CPU", name)
    devices = [{"name": "CPU"}, {"name": "MY_CARD", "roofline": "GPU"}]
    own, gpu = (
        placement_env(gym.make("DevicePlacementSim-v0", model="tiny", devices=given))
        for given in (devices, "CPU,GPU")
    )
    np.testing.assert_array_equal(own.cost_table().operator_ms, gpu.cost_table().operator_ms)


def test_a_cost_tables_file_may_name_any_devices(tmp_path: Path) -> None:
    env = placement_env(gym.make("DevicePlacementSim-v0", model="tiny"))
    path = tmp_path / "costs.json"
    replace(env.cost_table(), devices=("BIG", "LITTLE")).save(path)
    again = gym.make("DevicePlacementSim-v0", model="tiny", devices="BIG,LITTLE", costs=str(path))
    assert again.reset()[1]["reference_ms"] == env.reference.latency_ms


def test_a_workloads_device_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    path = write_workload(tmp_path / "one.json", [node(0)], [])
    with pytest.raises(UserError, match=r"'ACCC'.*did you mean 'ACC'"):
        gym.make("DevicePlacementSim-v0", model=path, devices="CPU,ACCC")
    gym.make("DevicePlacementSim-v0", model=path, devices="CPU,ACC.0,GPU")


@pytest.mark.parametrize(
    ("env_id", "keyword", "nearest"),
    [
        ("DevicePlacementSim-v0", "colocated", ""),
        ("DevicePlacementSim-v0", "granularty", "granularity"),
        ("placement_gym:DevicePlacementSim-v0", "horizn", "horizon"),
        ("DevicePlacement-v0", "repeat", "repeats"),
        ("DevicePlacementPerUnitSim-v0", "nois", "noise"),
        ("DevicePlacementPerUnit-v0", "final_rewrd", "final_reward"),
        ("DevicePlacementPerUnitSim-v0", "obsrve", "observe"),
        ("DevicePlacementPerUnit-v0", "zebra", ""),
    ],
)
def test_an_unknown_keyword_is_refused_with_the_nearest(
    env_id: str, keyword: str, nearest: str
) -> None:
    with pytest.raises(UserError, match=f"unexpected keyword argument '{keyword}'") as refusal:
        gym.make(env_id, model="tiny", **{keyword: 1})
    assert not nearest or f"did you mean {nearest!r}?" in str(refusal.value)


@pytest.mark.parametrize("command", ["check", "compare", "study"])
def test_foreign_environment_is_refused_with_the_ids(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = "CartPole-v1 is not a placement environment; use DevicePlacement-v0, "
    if command == "check":
        with pytest.raises(UserError, match=plain):
            find_env_spec("CartPole-v1")
        return
    study = tmp_path / "study.yaml"
    study.write_text("env: CartPole-v1\nmodels: [tiny]\nagents: [random]\nseeds: 1\nbudget: 3\n")
    words = {
        "compare": ["compare", "--env", "CartPole-v1", "--model", "tiny"],
        "study": ["bench", "run", str(study), "--out", str(tmp_path / "out")],
    }
    assert main(words[command]) == 2
    assert plain in capsys.readouterr().err


@pytest.mark.parametrize("env_id", ["DevicePlacementOnline-v0", "DevicePlacementStream-v0"])
def test_environments_that_place_no_one_model_name_what_evaluates_them(
    env_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "--env", env_id, "--model", "tiny", "--out", str(tmp_path)]) == 2
    remedy = f"or evaluate policies of {env_id} with Stable-Baselines3's evaluate_policy"
    assert remedy in capsys.readouterr().err


def test_what_a_function_makes_is_seen_when_it_is_made() -> None:
    gym.register("Disguised-v0", entry_point=lambda model: gym.make("CartPole-v1"))
    try:
        with pytest.raises(UserError, match="Disguised-v0 is not a placement environment"):
            BenchEnv.make("Disguised-v0", {"model": "tiny"})
    finally:
        gym.registry.pop("Disguised-v0")


@pytest.mark.parametrize("env_id", ["DevicePlacementSym-v0", "no_such_module:Env-v0"])
def test_an_unknown_id_is_a_users_error(env_id: str) -> None:
    with pytest.raises(UserError):
        find_env_spec(env_id)


@pytest.mark.parametrize("env_id", HERE)
def test_a_chain_that_collapses_to_one_unit_can_be_placed(env_id: str) -> None:
    inputs = ops.parameter((1, 8), np.float32, name="inputs")
    chain = ov.Model([ops.result(ops.tanh(ops.relu(inputs)))], [inputs], "chain")
    env = gym.make(env_id, model=chain, devices="cpu-testbed", **HERE[env_id])
    observation, _ = env.reset()
    assert env.observation_space.contains(observation)
    assert env.step(np.array([1]))[4]["feasible"]


def test_ppo_learns_on_the_simulated_env() -> None:
    env = gym.make("DevicePlacementSim-v0", model="tiny", observe_graph=False)
    agent = PPO("MultiInputPolicy", env, n_steps=64, batch_size=64, learning_rate=1e-2, seed=0)
    agent.learn(384)
    observation, start = env.reset(seed=0)
    action, _ = agent.predict(observation, deterministic=True)
    _, _, _, _, info = env.step(action)
    assert info["latency_ms"] < 0.5 * start["latency_ms"]


def test_ppo_makes_an_env_from_its_id_alone() -> None:
    agent = PPO("MultiInputPolicy", "DevicePlacementSim-v0", n_steps=4, batch_size=4, seed=0)
    agent.learn(4)
    assert agent.num_timesteps == 4


def test_features_can_be_normalised_and_masks_cannot() -> None:
    envs = DummyVecEnv([lambda: gym.make("DevicePlacementSim-v0", model="tiny")])
    normalised = VecNormalize(envs, norm_obs_keys=["x"])
    raw, seen = envs.reset(), normalised.reset()
    for _ in range(20):
        seen, *_ = normalised.step(np.array([envs.action_space.sample()]))
    assert not np.allclose(seen["x"], raw["x"])
    np.testing.assert_array_equal(seen["node_mask"], raw["node_mask"])
    agent = PPO("MultiInputPolicy", normalised, n_steps=4, batch_size=4, seed=0).learn(4)
    assert agent.num_timesteps == 4
    with pytest.raises(ValueError, match="norm_obs_keys"):
        VecNormalize(envs)


def test_the_reference_is_the_first_device_listed() -> None:
    swapped = diamond_problem(CPU_GPU[::-1])
    observation, info = DevicePlacementEnv(FakeBackend(problem=swapped)).reset()
    assert placed(observation).tolist() == [0, 0, 0, 0]
    assert list(info["devices"]) == ["GPU", "CPU"]


@pytest.mark.parametrize("view", ["folded", "raw"])
@pytest.mark.parametrize("env_id", HERE)
def test_placement_states_the_view_of_its_environment(env_id: str, view: str) -> None:
    options = {"model": "tiny", "devices": "cpu-testbed", "graph": view, **HERE[env_id]}
    env = placement_env(gym.make(env_id, **options))
    placement = env.placement()
    assert placement.graph == view
    assert len(placement.operator_devices(extract(load_model("tiny"), placement.graph)))


@pytest.mark.parametrize(("objective", "samples"), [("latency", 6), ("throughput", 4)])
def test_a_step_takes_so_many_samples_at_most(objective: str, samples: int) -> None:
    options = {"model": "tiny", "devices": "cpu-testbed", "objective": objective, "isolate": False}
    env = placement_env(gym.make("DevicePlacement-v0", **options))
    backend: Any = env.backend
    assert backend.inner.protocol.repeats == samples
    env.close()
