"""Policies refuse observations that a wrapper has normalised; normalised rewards are fine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecNormalize

import placement_gym  # noqa: F401  registers the environments
from agents.common.logits import LogitsPolicy
from agents.gdp import GOPolicy
from agents.hsdag import HSDAGPolicy
from agents.placeto import PlacetoPolicy
from agents.rnn import HDPPolicy, RNNPolicy
from placement_gym.base.errors import UserError

SMALL = {"hidden": 16, "decoder": 16, "attention": 8}
POLICIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "hsdag": (HSDAGPolicy, {"hidden": 16}),
    "placeto": (PlacetoPolicy, {}),
    "rnn": (RNNPolicy, SMALL),
    "hdp": (HDPPolicy, SMALL),
    "gdp": (GOPolicy, {"hidden": 16, "layers": 1, "rounds": 1, "segment": 4}),
    "post": (LogitsPolicy, {}),
}


def learner(name: str, graphs: bool = False, **normalised: Any) -> PPO:
    """PPO with a policy on normalised environments."""
    per_unit = "PerUnit" if name == "placeto" else ""
    kwargs = {"model": "tiny", "observe_devices": True}
    envs = make_vec_env(f"placement_gym:DevicePlacement{per_unit}Sim-v0", 2, env_kwargs=kwargs)
    policy, options = POLICIES[name]
    if graphs:
        options = {**options, "graphs": envs.get_attr("unwrapped")[0].graph_table()}
    vec = VecNormalize(envs, **normalised)
    return PPO(policy, vec, n_steps=4, batch_size=8, n_epochs=1, policy_kwargs=options, seed=0)


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "post"])
@pytest.mark.parametrize("graphs", [False, True])
def test_normalised_features_of_graphs_are_refused(name: str, graphs: bool) -> None:
    model = learner(name, graphs, norm_obs_keys=["x"])
    with pytest.raises(UserError, match=r"'x' .* VecNormalize\(norm_obs=False\)"):
        model.learn(8)


@pytest.mark.parametrize("key", ["graph_id", "placement", "unit_ms"])
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
