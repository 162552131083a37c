# White-box tests of envs
"""Flat observations of one unit, and the reward that pays what each step saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from fakes import UNIT_MS, FakeBackend, diamond_backend, diamond_costs, diamond_problem
from gymnasium.utils.env_checker import check_env
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env

from placement_gym import load_model
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import FloatArray, UserError
from placement_gym.envs import DevicePlacementEnv, PerUnitEnv, play_episode
from placement_gym.envs.unit_observation import COLUMNS, FINENESS, FlatUnits
from placement_gym.hardware import DeviceSpec
from placement_gym.problem.costs import PRESETS, CostTable

BY_UNIT = "DevicePlacementPerUnitSim-v0"
SCALE_MS = float(np.mean(UNIT_MS)) / FINENESS
LIMITS = [{"name": "CPU"}, {"name": "GPU", "weight_share": 0.3}]
MEASURED = "DevicePlacementPerUnit-v0"


def flat(backend: Any = None, costs: CostTable | None = None, **kwargs: Any) -> PerUnitEnv:
    base = DevicePlacementEnv(backend or diamond_backend(), costs=costs)
    return PerUnitEnv(base, **{"observe": "flat", **kwargs})


def made(**kwargs: Any) -> Any:
    return gym.make(BY_UNIT, **{"model": "tiny", "observe": "flat", **kwargs})


def read(observation: Any, column: str) -> FloatArray:
    """(D,) the numbers of a column; of times in ms."""
    values = observation.reshape(len(COLUMNS), -1)[COLUMNS.index(column)]
    return values if column in ("producer", "memory") else np.sinh(values) * SCALE_MS


def check_columns(observation: Any, expected: dict[str, list[float]]) -> None:
    for column, values in expected.items():
        assert read(observation, column) == pytest.approx(values, abs=1e-6), column


def test_the_columns_are_those_of_the_diamond_by_hand() -> None:
    env = flat()
    observation, _ = env.reset()
    check_columns(observation, {"own": [0, -3], "incoming": [0, 0], "outgoing": [0, 0.5]})
    check_columns(observation, {"total": [0, -2.5], "near": [0, -3], "producer": [0, 0]})
    observation, *_ = env.step(1)
    check_columns(observation, {"own": [0, -2], "incoming": [0.5, 0], "outgoing": [0, 0.25]})
    check_columns(observation, {"total": [0, -2.25], "near": [0, -2.5], "producer": [0, 1]})
    observation, *_ = env.step(0)  # its input is on both devices now
    check_columns(observation, {"own": [0, 2], "incoming": [0, 0], "producer": [0, 1]})
    check_columns(observation, {"finish": [0, 0], "memory": [0, 0]})


def test_where_devices_work_in_parallel_ends_are_seen() -> None:
    problem = diamond_problem()
    backend = SimulatedBackend(problem, diamond_costs(problem), PRESETS["list"])
    env = flat(backend)
    env.reset()
    observation, *_ = env.step(1)  # ends at 1, and its output reaches the CPU at 1.5
    assert read(observation, "finish") == pytest.approx([0, 3 - 5.5])
    observation, *_ = env.step(1)  # the GPU is busy until 3, the CPU is free
    assert read(observation, "finish") == pytest.approx([0, 6 - 2.5])


def test_throughput_sees_loads() -> None:
    problem = diamond_problem()
    backend = SimulatedBackend(problem, diamond_costs(problem), PRESETS["tarnawski-throughput"])
    env = flat(backend)
    env.reset()
    observation, *_ = env.step(1)
    assert read(observation, "finish") == pytest.approx([0, 3 - 4.5])


def test_memory_is_the_share_of_the_limit_with_the_unit() -> None:
    devices = (DeviceSpec("CPU"), DeviceSpec("GPU", memory_bytes=500))
    env = flat(diamond_backend(diamond_problem(devices, refused=[(2, 1)])))
    shares = [read(env.reset()[0], "memory")]
    shares += [read(env.step(device)[0], "memory") for device in (1, 1, 0)]
    assert np.array(shares) == pytest.approx(np.array([[0, 0.2], [0, 0.6], [0, 2], [0, 1.4]]))


@pytest.mark.parametrize("schedule", PRESETS)
@pytest.mark.parametrize("observe", ["graph", "flat"])
@pytest.mark.parametrize("start", ["best-single", "first", "random"])
def test_the_rewards_of_an_episode_sum_up_to_what_it_saved(
    schedule: str, observe: str, start: str
) -> None:
    devices = ["GPU", "CPU", "NPU"]  # the best single device is not the first
    kwargs = {"model": "tiny", "devices": devices, "schedule": schedule, "granularity": "op"}
    env: Any = gym.make(BY_UNIT, observe=observe, start=start, reward="saving", **kwargs).unwrapped
    env.action_space.seed(0)
    for seed in range(3):
        env.reset(seed=seed)
        n, first_ms = env.problem.n_units, env.predict_ms(env.assignment)
        total, done = 0.0, False
        while not done:
            _, reward, done, _, info = env.step(env.action_space.sample())
            total += reward
        saved = n * (first_ms - info["latency_ms"]) / info["best_single_ms"]
        assert total == pytest.approx(saved, abs=1e-9)
        if start == "best-single":
            assert total == pytest.approx(n * (1 - 1 / info["speedup_vs_best_single"]), abs=1e-9)


def test_own_and_incoming_times_add_up_to_a_serial_latency() -> None:
    env: Any = made(model="family-branching-60-seed3", devices="cpu+2dgpu", granularity="op")
    env, rng = env.unwrapped, np.random.default_rng(0)
    flat: FlatUnits = env.flat
    scale_ms = env.base.backend.costs.unit_ms(env.problem.units).mean() / FINENESS
    for _ in range(5):
        env.reset()
        total = 0.0
        for unit in range(env.problem.n_units):
            device = int(rng.integers(3))
            total += flat.own[unit, device] + flat.compute_incoming(unit)[device]
            *_, info = env.step(device)
        assert total * scale_ms == pytest.approx(info["latency_ms"])


def test_only_the_last_placement_is_evaluated() -> None:
    fake = FakeBackend()
    env = flat(fake, diamond_costs(fake.problem))
    _, info = env.reset()
    assert info["speedup_vs_best_single"] == 1.0
    rewards = [env.step(device)[1] for device in (1, 0, 1, 0)]
    assert fake.calls_of("evaluate") == 1
    # by costs until the last step, which is measured: 12 ms instead of 10
    assert sum(rewards) == pytest.approx(4 * (1.0 - 12.0 / 10.0))


def test_infeasible_placements_lose_what_other_rewards_lose() -> None:
    env = made(devices=LIMITS)
    env.reset()
    rewards, done = [], False
    while not done:
        _, reward, done, _, info = env.step(1)
        rewards.append(reward)
    assert not info["feasible"]
    assert sum(rewards) < -9 * len(rewards)


def test_an_episode_starts_on_the_best_single_device_unless_stated() -> None:
    env: Any = made(devices=["NPU", "GPU"]).unwrapped
    _, info = env.reset()
    assert (env.assignment == env.single).all()
    assert env.single == 1
    assert info["speedup_vs_best_single"] == 1.0
    given: Any = made(devices=["NPU", "GPU"], start="first").unwrapped
    given.reset()
    assert not given.assignment.any()
    given.reset(options={"placement": [1, 0, 1, 0, 1, 0, 1]})
    assert given.flat.device.tolist() == [1, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("kwargs", [{}, {"devices": LIMITS}, {"schedule": "event"}])
@pytest.mark.filterwarnings("ignore:.*A Box observation space")
def test_it_keeps_gymnasiums_contract(kwargs: dict[str, Any]) -> None:
    check_env(made(**kwargs).unwrapped, skip_render_check=True)


def test_graphs_share_one_space_and_devices_can_be_padded() -> None:
    sizes = [
        made(model=model, devices=devices, max_devices=4).observation_space
        for model, devices in [("tiny", "cpu+dgpu"), ("cnn", "cpu+igpu+npu")]
    ]
    assert sizes[0] == sizes[1]
    assert sizes[0].shape == (4 * len(COLUMNS),)
    env = made(max_devices=4)
    env.reset()
    observation, *_ = env.step(3)  # a padded device means the reference device
    assert not observation.reshape(len(COLUMNS), 4)[:, 2:].any()
    assert env.observation_space.contains(observation)


def test_what_measures_needs_costs_for_it() -> None:
    for kwargs in ({}, {"observe": "graph", "reward": "saving"}):
        with pytest.raises(UserError, match="costs='profiled'"):
            flat(FakeBackend(), **kwargs)
    with pytest.raises(UserError, match="one of profiled"):
        gym.make(MEASURED, model="tiny", costs="analytic")


def test_environments_of_a_model_share_its_units() -> None:
    one, two = (made(model="cnn").unwrapped.problem for _ in range(2))
    assert one.units is two.units
    assert made(model="cnn", granularity="op").unwrapped.problem.units is not one.units


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "model.xml"
    n_units = []
    for name in ("tiny", "cnn"):
        ov.save_model(load_model(name), file)
        one, two = (made(model=str(file)).unwrapped.problem for _ in range(2))
        assert one.units is two.units
        n_units.append(one.n_units)
    assert n_units == [made(model=name).unwrapped.problem.n_units for name in ("tiny", "cnn")]


@pytest.mark.parametrize("steps", [40, pytest.param(2_048, marks=pytest.mark.slow)])
def test_stock_a2c_learns(steps: int) -> None:
    kwargs = {"model": "inception", "devices": "hsdag-paper", "observe": "flat"}
    envs = make_vec_env(BY_UNIT, n_envs=8, env_kwargs=kwargs)
    model = A2C("MlpPolicy", envs, gamma=1.0, device="cpu", seed=0).learn(steps)
    speedup = play_episode(gym.make(BY_UNIT, **kwargs), model)["speedup_vs_best_single"]
    assert speedup > (1.18 if steps > 2_000 else 0.0)
