"""Training across problems: every episode is another one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.vec_env import DummyVecEnv

from agents.common.sampled_env import SampledProblemEnv
from placement_gym.graph.families.problems import split_of_seed


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
