"""Environments from their ids: arguments, built-in models, and learning on them."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import (
    CPU_GPU,
    FakeBackend,
    assignment,
    diamond_problem,
)
from stable_baselines3 import PPO

import placement_gym  # noqa: F401  registers the ids
from placement_gym.env import DevicePlacementEnv, placement_env


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
