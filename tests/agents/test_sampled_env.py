"""Training across problems: every episode is another one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import DummyVecEnv

from agents.common import REINFORCE
from agents.common.graph_data import Graphs
from agents.common.sampled_env import SampledProblemEnv
from agents.hsdag import HSDAGPolicy
from placement_gym.graph.families.problems import make_problem, split_of_seed


def test_the_environment_is_valid() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(SampledProblemEnv(), skip_render_check=True)


def test_every_episode_has_another_problem_in_the_same_spaces() -> None:
    env = SampledProblemEnv("validation")
    seeds = [env.reset(seed=3)[1]["problem_seed"]]
    for _ in range(3):
        observation, info = env.reset()
        assert env.observation_space.contains(observation)
        seeds.append(info["problem_seed"])
    assert len(set(seeds)) == 4
    assert {split_of_seed(seed) for seed in seeds} == {"validation"}
    assert env.reset(seed=3)[1]["problem_seed"] == seeds[0]


def test_a_problem_may_last_several_episodes() -> None:
    env = SampledProblemEnv(episodes=2)
    seeds = [env.reset(seed=3)[1]["problem_seed"]]
    seeds += [env.reset()[1]["problem_seed"] for _ in range(4)]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3] != seeds[4]


def test_problems_may_be_drawn_by_another_function() -> None:
    env = SampledProblemEnv(draw=lambda rng, split: make_problem(20_007))
    assert {env.reset(seed=seed)[1]["problem_seed"] for seed in range(2)} == {20_007}


def test_the_reward_is_relative_to_the_floor() -> None:
    env = SampledProblemEnv()
    _, start = env.reset(seed=1)
    action = np.zeros(env.env.observer.n_nodes, dtype=np.int64)
    _, reward, terminated, _, info = env.step(action)
    assert terminated
    assert info["floor_ms"] == start["floor_ms"] <= start["reference_ms"]
    assert reward == pytest.approx(np.log(info["floor_ms"] / info["latency_ms"]))


def test_many_make_a_vector_environment() -> None:
    envs = DummyVecEnv([SampledProblemEnv] * 2)
    envs.seed(0)
    observation = envs.reset()
    assert isinstance(observation, dict)
    assert len(np.unique(observation["graph_id"])) == 2
    masks = np.stack(envs.env_method("action_masks"))
    assert masks.shape == (2, 400 * 5)
    _, rewards, dones, _ = envs.step(np.zeros((2, 400), dtype=np.int64))
    assert np.isfinite(rewards).all()
    assert dones.all()


def test_policy_learns_across_problems_with_present_devices_only() -> None:
    envs = DummyVecEnv([SampledProblemEnv] * 3)
    policy = {"hidden": 8, "layers": 1}
    model = REINFORCE(
        HSDAGPolicy, envs, n_steps=1, seed=0, policy_kwargs=policy, device="cpu", baseline="none"
    )
    before = torch.nn.utils.parameters_to_vector(model.policy.parameters()).clone()
    model.learn(6)
    after = torch.nn.utils.parameters_to_vector(model.policy.parameters())
    assert not torch.equal(before, after)
    observation = envs.reset()
    assert isinstance(observation, dict)
    graphs, _ = Graphs().batch(obs_as_tensor(observation, torch.device("cpu")))
    assert graphs.action_mask is not None
    assert not graphs.action_mask.all()
    actions, _ = model.predict(observation, deterministic=False)
    for row, devices in zip(actions, observation["supported"], strict=True):
        placed = devices.any(axis=1)
        assert devices[np.arange(len(row)), row][placed].all()
