"""Policies refuse observations that a wrapper has normalised; normalised rewards are fine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from learners import NETWORKS, POLICIES, env_of
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecNormalize

from placement_gym.base import UserError


def learner(name: str, graphs: bool = False, **normalised: Any) -> PPO:
    """PPO with a policy on normalised environments."""
    kwargs = {"model": "tiny", "observe_devices": True}
    envs = make_vec_env(lambda: env_of(name, **kwargs), 2)
    policy, options = POLICIES[name]
    if graphs:
        options = {**options, "graphs": envs.get_attr("unwrapped")[0].graph_table()}
    vec = VecNormalize(envs, **normalised)
    return PPO(policy, vec, n_steps=4, batch_size=8, n_epochs=1, policy_kwargs=options, seed=0)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("graphs", [False, True])
def test_normalised_features_of_graphs_are_refused(name: str, graphs: bool) -> None:
    model = learner(name, graphs, norm_obs_keys=["x"])
    with pytest.raises(UserError, match=r"'x' .* VecNormalize\(norm_obs=False\)"):
        model.learn(8)


@pytest.mark.parametrize("key", ["graph_id", "edges", "unit_times"])
def test_other_normalised_keys_are_refused(key: str) -> None:
    with pytest.raises(UserError, match=rf"'{key}' .* VecNormalize\(norm_obs=False\)"):
        learner("hsdag", norm_obs_keys=[key]).learn(8)


@pytest.mark.parametrize("name", POLICIES)
def test_likelihoods_are_the_rollouts_under_normalised_rewards(name: str) -> None:
    model = learner(name, norm_obs=False)
    seen: list[float] = []

    def compare() -> None:
        buffer: Any = model.rollout_buffer
        for step in range(buffer.buffer_size):
            observation = {key: value[step] for key, value in buffer.observations.items()}
            actions = torch.as_tensor(buffer.actions[step]).squeeze()
            with torch.no_grad():
                tensors: Any = obs_as_tensor(observation, model.device)
                _, log_prob, _ = model.policy.evaluate_actions(tensors, actions)
            seen.extend(np.abs(log_prob.numpy() - buffer.log_probs[step]).tolist())

    model.train = compare  # type: ignore[method-assign]
    model.learn(8)
    assert max(seen) < 1e-4
