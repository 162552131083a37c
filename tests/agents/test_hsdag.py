# White-box tests of agents.hsdag
"""HSDAG under SB3's algorithms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from learned import (
    SIMULATED,
    Steps,
    count_calls,
    first_observation,
    mean_return,
    optimal_speedup,
    several,
    simulated,
    vectorize_toy,
    weights,
)
from named_agents import tight_env
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from torch_geometric.nn import SAGEConv

from agents.common import REINFORCE, Encoder, MissingGraphError
from agents.hsdag import PRESETS, HSDAGPolicy, groups, make
from agents.hsdag.networks import Networks
from placement_gym.envs import placement_env, play_episode

CPU = torch.device("cpu")
PAPER = {"preset": "paper"}


def learner(
    algorithm: type[BaseAlgorithm],
    env: VecEnv | None = None,
    learning_rate: float = 5e-4,
    ent_coef: float = 0.1,
    **policy: Any,
) -> Any:
    """A learner that the toy suffices for."""
    env = vectorize_toy(100) if env is None else env
    proximal = {"n_steps": 2, "batch_size": 100, "n_epochs": 4, "gamma": 0.0}
    options: dict[type[BaseAlgorithm], dict[str, Any]] = {
        PPO: proximal,
        MaskablePPO: proximal,
        A2C: {"n_steps": 1, "gamma": 0.0, "normalize_advantage": True},
        REINFORCE: {"n_steps": 1},
    }
    graphs = env.get_attr("graph_table")[0]()
    return algorithm(
        HSDAGPolicy,
        env,
        learning_rate=learning_rate,
        ent_coef=ent_coef,
        policy_kwargs={"graphs": graphs, "hidden": 32, **policy},
        seed=0,
        device="cpu",
        **options[algorithm],
    )


@pytest.mark.parametrize(
    "algorithm",
    [REINFORCE, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (PPO, A2C, MaskablePPO))],
)
def test_rough_costs_lead_near_the_toys_optimum(algorithm: type[BaseAlgorithm]) -> None:
    model = learner(algorithm)
    model.learn(2_000)
    assert play_episode(simulated(), model)["speedup"] > 0.95 * optimal_speedup()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [PPO, REINFORCE])
def test_learning_without_rough_costs_leads_near_the_optimum(
    algorithm: type[BaseAlgorithm],
) -> None:
    model = learner(algorithm, cost_weight=0.0, learning_rate=1e-3, ent_coef=0.2, hidden=16)
    assert play_episode(simulated(), model)["speedup"] < 0.95 * optimal_speedup()
    model.learn(8_000 if algorithm is PPO else 16_000)
    assert play_episode(simulated(), model)["speedup"] > 0.95 * optimal_speedup()


@pytest.mark.parametrize(
    "algorithm",
    [PPO, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (A2C, REINFORCE, MaskablePPO))],
)
@pytest.mark.parametrize(
    "options", [{"preset": "paper"}, pytest.param({"cost_weight": 0.0}, marks=pytest.mark.slow)]
)
def test_the_reward_rises_without_rough_costs(
    algorithm: type[BaseAlgorithm], options: dict[str, Any]
) -> None:
    model = learner(algorithm, learning_rate=2e-3, **options)
    model.learn(200)
    before = mean_return(model)
    model.learn(2_800, reset_num_timesteps=False)
    assert mean_return(model) > before + 0.3  # of 2.49 at the optimum


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("algorithm", [PPO, A2C, REINFORCE])
def test_every_parameter_receives_a_gradient(algorithm: type[BaseAlgorithm], preset: str) -> None:
    model = learner(algorithm, preset=preset, hidden=8)
    silent = {name for name, _ in model.policy.named_parameters()}
    for name, parameter in model.policy.named_parameters():
        parameter.register_hook(lambda g, name=name: silent.discard(name) if g.any() else None)
    model.learn(300)
    assert not silent


@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("graphs", ["observed", "given"])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_likelihood_of_a_rollout_can_be_recomputed(
    horizon: int, graphs: str, preset: str
) -> None:
    env = simulated(horizon=horizon, observe_graph=graphs == "observed")
    envs = DummyVecEnv([lambda: env])
    table = env.graph_table() if graphs == "given" else None
    kwargs = {"graphs": table, "preset": preset}
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=kwargs, seed=0, device="cpu").policy
    observation = envs.reset()
    for _ in range(horizon):
        tensors = obs_as_tensor(observation, CPU)
        actions, values, log_prob = policy(tensors)
        again, log_prob_again, entropy = policy.evaluate_actions(tensors, actions)
        torch.testing.assert_close(log_prob, log_prob_again)
        torch.testing.assert_close(values, again)
        assert (entropy > 0).all()
        observation, *_ = envs.step(actions.numpy())


def test_groups_stay_in_a_rollout_and_are_drawn_for_the_next() -> None:
    envs = several("resnet")
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=PAPER, seed=0, device="cpu").policy
    policy.set_training_mode(False)
    tensors = first_observation(envs)
    leaders = [policy.decide(tensors).distribution.leader for _ in range(2)]
    assert torch.equal(*leaders)
    drawn = set()
    for _ in range(5):
        with torch.no_grad():
            next(policy.parameters()).add_(1e-4)
        kept = policy.decide(tensors).distribution.leader
        assert torch.equal(kept, leaders[-1])
        policy.clear_stale_caches()
        leaders.append(policy.decide(tensors).distribution.leader)
        drawn.add(leaders[-1].numpy().tobytes())
    assert len(drawn) > 2


def test_a_group_goes_to_one_device() -> None:
    envs = several("resnet")
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=PAPER, seed=0, device="cpu").policy
    tensors = first_observation(envs)
    for _ in range(5):
        actions, *_ = policy(tensors)
        leader = policy.decide(tensors).distribution.leader
        assert torch.equal(actions, actions.gather(1, leader))


def test_prediction_parses_groups_and_not_into_one() -> None:
    envs = several("inception")
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=PAPER, seed=0, device="cpu").policy
    distribution = policy.decide(first_observation(envs), greedy=True).distribution
    assert 3 < distribution.weight.sum() < 0.6 * envs.get_attr("problem")[0].n_units


def test_a_policy_forgets_graphs_that_others_replace() -> None:
    envs = [gym.make(SIMULATED, model=name, max_nodes=80, max_edges=200, observe_graph=False)
            for name in ("resnet", "inception")]  # fmt: skip
    agent = make(envs[0], 0, policy={"hidden": 8})
    agent.policy.set_graphs(placement_env(envs[1]).graph_table())
    agent.predict(envs[1].reset()[0])
    with pytest.raises(MissingGraphError):
        agent.predict(envs[0].reset()[0])


def test_the_state_moves_within_an_episode() -> None:
    env = simulated("resnet", horizon=3)
    envs = DummyVecEnv([lambda: env])
    kwargs = {"preset": "paper", "dropout": 0.0}
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=kwargs, seed=0, device="cpu").policy
    seen = first_observation(envs)
    first = policy.decide(seen).distribution.log_probs
    later = policy.decide({**seen, "step": seen["step"] + 1 / 3}).distribution.log_probs
    assert not torch.allclose(first, later)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_agent_of_the_benchmark_learns_within_its_budget(preset: str) -> None:
    env = gym.make(SIMULATED, model="tiny")
    agent = make(env, 0, preset=preset)
    agent.learn(100)
    assert agent.num_timesteps == agent.policy.drawn == 100
    assert placement_env(env).observation_space.contains(env.reset()[0])
    assert play_episode(env, agent)["feasible"]


@pytest.mark.parametrize(
    "options", [{"policy": {"conv": "cnn"}}, {"baseline": "luck"}, {"returns": "all"}]
)
def test_unknown_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"cnn|luck|all"):
        make(gym.make(SIMULATED, model="tiny"), 0, **options)


STEPS: Steps = [
    (Encoder, "forward"),
    *((Networks, name) for name in ("score_edges", "pool_groups", "forward")),
    (groups, "parse"),
]
"""The five steps but for the update: 2.3, 2.4."""


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("algorithm", [PPO, A2C, REINFORCE])
def test_all_steps_run_in_learning_and_in_predicting(
    algorithm: type[BaseAlgorithm], preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = learner(algorithm, vectorize_toy(5), preset=preset, hidden=8)
    counts = count_calls(STEPS, monkeypatch)
    model.learn(20)
    assert len(counts) == len(STEPS)
    before, observation = model.policy.state_dict(), simulated().reset()[0]
    for deterministic in (True, False):
        counts.clear()
        with torch.no_grad():
            next(model.policy.parameters()).add_(1e-4)
        model.predict(observation, deterministic=deterministic)
        assert len(counts) == len(STEPS)
    # the fifth step is the algorithm's update
    fresh = learner(algorithm, vectorize_toy(5), preset=preset, hidden=8).policy.state_dict()
    assert any((fresh[name] != one).any() for name, one in before.items() if name != "drawn")


def test_a_convolution_of_pytorch_geometric_is_kept_by_saving(tmp_path: Path) -> None:
    kwargs = {"conv": SAGEConv, "hidden": 16}
    model = PPO(HSDAGPolicy, simulated(), policy_kwargs=kwargs, n_steps=16, batch_size=16)
    model.learn(16)
    model.save(tmp_path / "model.zip")
    assert torch.equal(weights(PPO.load(tmp_path / "model.zip")), weights(model))


@pytest.mark.parametrize(("repair", "weight", "rate"), [(False, 0.5, 3e-3), (True, 2.0, 1e-3)])
def test_costs_are_a_weak_prior_where_nothing_repairs(
    repair: bool, weight: float, rate: float
) -> None:
    model = make(tight_env(repair=repair), 0)
    assert (model.policy.options.cost_weight, model.learning_rate) == (weight, rate)
