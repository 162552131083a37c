# White-box tests of agents
"""Stable-Baselines3's PPO as a study runs it."""

from __future__ import annotations

import gymnasium as gym
import pytest
import torch

from agents.stock import StepExtractor, ppo
from placement_gym import play_episode


def test_ppo_reads_the_step_alone() -> None:
    policy = ppo(gym.make("DevicePlacementSim-v0", model="tiny")).policy
    assert isinstance(policy.features_extractor, StepExtractor)
    assert policy.features_extractor.features_dim == 1


def test_ppo_learns_to_leave_the_slow_device() -> None:
    torch.set_num_threads(1)
    env = gym.make("DevicePlacementSim-v0", model="tiny", devices="cpu+dgpu")
    model = ppo(env)
    before = play_episode(env, model)["latency_ms"]
    assert play_episode(env, model.learn(400))["latency_ms"] < 0.9 * before


def test_what_is_no_placement_environment_is_refused() -> None:
    with pytest.raises(TypeError, match="placement environment"):
        ppo(gym.make("CartPole-v1"))
