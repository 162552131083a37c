"""The policy of list schedules: its training, and as an agent."""

from __future__ import annotations

from itertools import combinations

import gymnasium as gym
import numpy as np
import pytest

import agents
import placement_gym
from agents.list_policy import BestOfK, best_of_k_advantages, make_trainer
from placement_gym.base import UserError

DEVICES = ["CPU", *({"name": f"GPU.{i}", "weight_share": 0.4} for i in range(2))]
SMALL = {"n_problems": 8, "sizes": (50, 100)}


@pytest.mark.parametrize("k", [2, 3, 5])
def test_advantages_are_means_over_sets_of_other_samples(k: int) -> None:
    rewards = np.random.default_rng(0).normal(size=(2, 6))
    wanted = np.zeros_like(rewards)
    for row, values in enumerate(rewards):
        for i, value in enumerate(values):
            others = np.delete(values, i)
            gains = [max(value - max(one), 0.0) for one in combinations(others, k - 1)]
            wanted[row, i] = np.mean(gains)
    wanted -= wanted.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(best_of_k_advantages(rewards, k), wanted)


def test_one_sample_is_compared_with_the_mean_of_the_others() -> None:
    rewards = np.random.default_rng(0).normal(size=(3, 5))
    others = (rewards.sum(axis=1, keepdims=True) - rewards) / 4
    np.testing.assert_allclose(best_of_k_advantages(rewards, 1), rewards - others)


def test_a_training_raises_rewards_and_repeats() -> None:
    policies = []
    for _ in range(2):
        trainer = make_trainer(seed=1, k=1, envs=SMALL, samples=16, problems=8)
        before = mean_reward(trainer)
        policies.append(trainer.learn(12 * 16 * 8).export())
    assert mean_reward(trainer) > before + 0.1
    assert policies[0] == policies[1]


def mean_reward(trainer: BestOfK) -> float:
    """Mean reward of 16 samples of each training problem."""
    rng, policy = np.random.default_rng(0), trainer.export()
    return float(
        np.mean(
            [
                trainer.reward(problem, policy.draw(problem.statistics, 16, rng))
                for problem in trainer.problems
            ]
        )
    )


def test_k_is_checked() -> None:
    with pytest.raises(UserError, match="k must be"):
        make_trainer(k=99, envs=SMALL)


def test_the_agent_answers_at_once_and_improves() -> None:
    env = gym.make("DevicePlacementSim-v0", model="resnet", devices=DEVICES, schedule="list")
    agent = agents.make("list-policy", env, 0)
    first = placement_gym.play_episode(env, agent)
    assert first["feasible"]
    agent.learn(5)
    assert agent.evaluations == 5
    assert len(agent.tried) >= 4  # the fifth is an earlier one where nothing new was drawn
    assert placement_gym.play_episode(env, agent)["speedup"] >= first["speedup"] > 1.0
