# White-box tests of agents.common
"""REINFORCE: credits, baselines, environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from learned import PER_UNIT, hsdag, simulated, vectorize_toy, weights
from stable_baselines3.common.callbacks import ConvertCallback
from stable_baselines3.common.env_util import make_vec_env

from agents.common import REINFORCE, leave_one_out
from agents.common.baselines import BASELINES, STEP_BITS, MovingAverages
from agents.hsdag import HSDAGPolicy
from placement_gym.base import UserError


def test_leave_one_out_is_the_mean_of_others_with_the_same_key() -> None:
    returns, keys = np.array([[1.0, 2.0], [6.0, 5.0]]), np.array([[0, 0], [0, 1]])
    otherwise = np.full((2, 2), 7.0)
    np.testing.assert_allclose(leave_one_out(returns, keys, otherwise), [[4.0, 3.5], [1.5, 7.0]])


def test_moving_averages_forget() -> None:
    averages = MovingAverages()
    keys = np.array([[0, 1]])
    np.testing.assert_allclose(averages(np.array([[2.0, 10.0]]), keys), [[2.0, 10.0]])
    np.testing.assert_allclose(averages(np.array([[6.0, 10.0]]), keys), [[2.4, 10.0]])


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("returns", ["to_go", "immediate"])
def test_every_baseline_learns_over_longer_episodes(baseline: str, returns: str) -> None:
    model = hsdag(
        vectorize_toy(horizon=3), n_steps=6, baseline=baseline, returns=returns, gamma=0.9
    )
    before = weights(model)
    model.learn(48)
    assert torch.isfinite(weights(model)).all()
    assert not torch.equal(before, weights(model))


@pytest.mark.parametrize("returns", ["to_go", "immediate"])
def test_credits_are_discounted_rewards_from_each_step(returns: str) -> None:
    model = hsdag(vectorize_toy(1, horizon=3), n_steps=6, returns=returns, gamma=0.5)
    given = [1.0, 2.0, 4.0, 3.0, 5.0, 8.0]
    advantages_of(model, *([reward] for reward in given))
    found = model.rollout_buffer.returns.flatten()
    if returns == "immediate":
        np.testing.assert_allclose(found, np.array(given) * ([1, 0.5, 0.25] * 2), rtol=1e-6)
    else:
        np.testing.assert_allclose(found, [3.0, 4.0, 4.0, 7.5, 9.0, 8.0], rtol=1e-6)


def advantages_of(model: Any, *rewards: list[float]) -> np.ndarray:
    """(n_envs, n_steps) advantages of the update on these rewards of steps."""
    rows = iter(rewards)
    model.env.envs.reward = lambda *_: np.array(next(rows))
    model.learn(len(rewards) * model.n_envs)
    return model.rollout_buffer.advantages.reshape(model.n_envs, -1)


def test_advantages_above_the_baseline_have_unit_mean_square() -> None:
    model = hsdag(vectorize_toy(2), baseline="moving_average")
    model.averages.known = {0: 1.0}
    advantages = np.array([[0.7], [4.7]])  # above an average that moves from 1 to 1.3
    scaled = advantages_of(model, [2.0, 6.0])
    np.testing.assert_allclose(scaled, advantages / np.sqrt(11.29), rtol=1e-6)
    model.normalize_advantage, model.averages.known = False, {0: 1.0}
    np.testing.assert_allclose(advantages_of(model, [2.0, 6.0]), advantages, rtol=1e-6)


def test_every_graph_of_a_rollout_has_a_scale_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    model = hsdag(vectorize_toy(2), n_steps=2)
    monkeypatch.setattr(
        "agents.common.baselines.find_keys", lambda *_: (np.array([[1, 2], [1, 2]]) << STEP_BITS, 0)
    )
    scaled = advantages_of(model, [1.0, 100.0], [3.0, 300.0])
    np.testing.assert_allclose(scaled, [[-1.0, 1.0], [-1.0, 1.0]], rtol=1e-6)


def test_the_policy_learns_from_these_advantages() -> None:
    model = hsdag(vectorize_toy(6))
    model.learn(6)
    assert (model.rollout_buffer.advantages**2).mean() == pytest.approx(1.0, rel=1e-5)


def test_a_rollout_has_a_step() -> None:
    with pytest.raises(UserError, match="n_steps must be an integer of at least 1"):
        hsdag(vectorize_toy(6), n_steps=0)


def test_episodes_longer_than_a_rollout_are_learned_from() -> None:
    model = hsdag(vectorize_toy(1, horizon=20), n_steps=5)
    before = weights(model)
    model.learn(60)
    assert not torch.equal(before, weights(model))


def test_long_episodes_keep_weights_finite() -> None:
    model = hsdag(vectorize_toy(2, horizon=80), n_steps=80)
    model.learn(320)
    assert torch.isfinite(weights(model)).all()


def test_a_callers_policy_arguments_stay_as_they_were() -> None:
    given: dict[str, Any] = {"hidden": 16}
    REINFORCE(HSDAGPolicy, simulated(), policy_kwargs=given, device="cpu")
    assert given == {"hidden": 16}


def test_fused_optimizers_do_not_leave_old_answers() -> None:
    model = hsdag(vectorize_toy(20))
    model.policy.optimizer = torch.optim.Adam(model.policy.parameters(), lr=3e-3, fused=True)
    rollouts = set()
    model.learn(200, ConvertCallback(lambda a, _: not rollouts.add(id(a["self"].policy.rollout))))
    model.policy.set_training_mode(False)
    observation, _ = simulated().reset()
    before = model.predict(observation, deterministic=True)[0]
    model.policy.clear_caches()
    np.testing.assert_array_equal(before, model.predict(observation, deterministic=True)[0])


@pytest.mark.parametrize("env_id", [PER_UNIT, "placement_gym:DevicePlacementSim-v0"])
def test_sb3s_own_policy_works(env_id: str, tmp_path: Path) -> None:
    envs = make_vec_env(env_id, n_envs=2, env_kwargs={"model": "tiny"})
    model = REINFORCE("MultiInputPolicy", envs, n_steps=14, baseline="per_step", device="cpu")
    before = weights(model)
    model.learn(56)
    assert not torch.equal(weights(model), before)
    model.save(tmp_path / "model.zip")
    loaded = REINFORCE.load(tmp_path / "model.zip", env=envs)
    assert torch.equal(weights(loaded), weights(model))
    loaded.learn(28, reset_num_timesteps=False)
    assert loaded.num_timesteps == 84
    assert not torch.equal(weights(loaded), weights(model))


def test_entropy_weight_follows_its_schedule() -> None:
    asked: list[float] = []
    model = hsdag(vectorize_toy(), ent_coef=lambda remaining: asked.append(remaining) or 0.1)
    model.learn(40)
    np.testing.assert_allclose(asked, 1.0 - np.arange(4, 44, 4) / 40)


def test_the_vector_env_tells_how_episodes_ended() -> None:
    env = vectorize_toy(3, horizon=2)
    env.seed(0)
    env.reset()
    actions = np.ones((3, simulated().problem.n_units), dtype=np.int64)
    _, first, done, infos = env.step(actions)
    assert not done.any()
    assert "episode" not in infos[0]
    observation, second, done, infos = env.step(actions)
    assert done.all()
    assert (observation["step"] == 0).all()
    for row, info in enumerate(infos):
        assert info["episode"]["l"] == 2
        assert info["episode"]["r"] == pytest.approx(first[row] + second[row], rel=1e-5)
        assert info["terminal_observation"]["step"] == 1.0
        assert info["latency_ms"] > 0


def test_the_vector_env_equals_single_environments() -> None:
    env, single = vectorize_toy(2), gym.make("placement_gym:DevicePlacementSim-v0", model="tiny")
    env.reset()
    actions = np.random.default_rng(0).integers(2, size=(2, 7))
    _, rewards, _, infos = env.step(actions)
    for action, reward, info in zip(actions, rewards, infos, strict=True):
        single.reset()
        _, expected, _, _, alone = single.step(action)
        assert reward == pytest.approx(expected)
        assert info["latency_ms"] == alone["latency_ms"]


@pytest.mark.parametrize("baseline", ["leave_one_out", "moving_average"])
def test_the_batch_size_changes_memory_and_nothing_else(baseline: str) -> None:
    trained = []
    for batch_size in (None, 7):
        model = hsdag(vectorize_toy(20), baseline=baseline, batch_size=batch_size)
        model.learn(60)
        trained.append(weights(model))
    torch.testing.assert_close(*trained, rtol=1e-3, atol=1e-5)


def test_multi_input_policy_takes_the_options_of_stable_baselines() -> None:
    kwargs = {"net_arch": [8]}
    REINFORCE("MultiInputPolicy", simulated(), policy_kwargs=kwargs, n_steps=4).learn(4)
