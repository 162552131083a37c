from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import placement_gym
from placement_gym.base import UserError

SIM, PER_UNIT = "DevicePlacementSim-v0", "DevicePlacementPerUnitSim-v0"
LIMITED = ["CPU", {"name": "GPU", "weight_share": 0.3}]


class Everywhere:
    """Puts every unit on one device."""

    def __init__(self, env: gym.Env[Any, Any], device: int) -> None:
        self.action = np.full(getattr(env.action_space, "shape", ()), device)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        assert deterministic
        return self.action, state


@pytest.mark.parametrize("env_id", [SIM, PER_UNIT])
def test_the_placement_is_the_repaired_one_not_the_action(env_id: str) -> None:
    env = gym.make(env_id, model="tiny", devices=LIMITED, repair=True)
    placed = placement_gym.place(Everywhere(env, 1), gym.wrappers.TimeLimit(env, 50))
    problem = placement_gym.placement_env(env).problem
    assert not problem.infeasibility(placed.assignment(problem))
    assert set(placed.units.values()) == {"CPU", "GPU"}


@pytest.mark.parametrize("env_id", [SIM, PER_UNIT])
def test_an_infeasible_placement_is_refused_with_a_remedy(env_id: str) -> None:
    env = gym.make(env_id, model="tiny", devices=LIMITED)
    with pytest.raises(UserError, match=r"GPU would hold .*make the environment with repair=True"):
        placement_gym.place(Everywhere(env, 1), env)


def test_several_environments_are_refused() -> None:
    envs: Any = gym.make_vec(SIM, num_envs=2, model="tiny")
    with pytest.raises(TypeError, match="give the agent one environment"):
        placement_gym.place(Everywhere(envs, 1), envs)


def test_another_size_is_refused_with_the_arguments_that_mend_it() -> None:
    small, padded = (gym.make(SIM, model="tiny", max_nodes=n) for n in (None, 9))
    model = PPO("MultiInputPolicy", small, n_steps=8, batch_size=8)
    assert placement_gym.place(model, small).units
    with pytest.raises(UserError, match=r"max_nodes=7, and is given max_nodes=9: train it with"):
        placement_gym.place(model, padded)
    larger = PPO("MultiInputPolicy", padded, n_steps=8, batch_size=8)
    with pytest.raises(UserError, match=r"make this environment with max_nodes=9$"):
        placement_gym.place(larger, small)
    several = gym.make(SIM, model="tiny", devices="cpu+2dgpu")
    with pytest.raises(UserError, match=r"train it with max_devices=3, and make this"):
        placement_gym.place(model, several)


def test_a_model_sees_observations_as_its_training_normalised_them() -> None:
    def make() -> gym.Env[Any, Any]:
        return gym.make(PER_UNIT, model="tiny", observe="flat")

    envs = VecNormalize(DummyVecEnv([make]))
    model = PPO("MlpPolicy", envs, n_steps=16, batch_size=16, seed=0).learn(64)
    seen: list[Any] = []
    predict = model.predict

    def record(observation: Any, *rest: Any) -> Any:
        seen.append(observation)
        return predict(observation, *rest)

    model.predict = record  # type: ignore[method-assign]
    env = make()
    placement_gym.play_episode(env, model, seed=0)
    first, _ = env.reset(seed=0)
    np.testing.assert_array_equal(seen[0], envs.normalize_obs(first))
    assert np.abs(seen[0] - first).max() > 0.01
