"""Groups whose edges are kept or cut: their number, limits, likelihood, and what is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from learned import simulated
from stable_baselines3 import PPO
from stable_baselines3.common.utils import obs_as_tensor

from agents.common.reinforce import REINFORCE
from agents.hsdag import HSDAGPolicy
from agents.hsdag.agent import make
from agents.hsdag.edges import Chosen, add_runs, choose_edges
from placement_gym.env import DevicePlacementEnv
from placement_gym.episode import play_episode
from placement_gym.errors import UserError

CHAIN = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
LIMITED = [
    {"name": "CPU", "roofline": "CPU"},
    {"name": "GPU", "roofline": "GPU", "weight_share": 0.4},
]
SMALL = {"policy": {"hidden": 16}}


def choose(scores: list[float], limit: float = np.inf, **kwargs: Any) -> Chosen:
    given = {"depth": 4, "held": np.full(5, 0.2), "allowed": None, "rng": None, **kwargs}
    return choose_edges(CHAIN, np.array(scores), limit=limit, **given)


def limited() -> DevicePlacementEnv:
    return simulated("inception", devices=LIMITED)


def test_scores_alone_say_how_many_groups_there_are() -> None:
    assert choose([1.0, 1.0, 1.0, 1.0]).group.tolist() == [0, 0, 0, 0, 0]
    assert choose([1.0, -1.0, 1.0, 1.0]).group.tolist() == [0, 0, 1, 1, 1]
    assert choose([-1.0, -1.0, -1.0, -1.0]).group.tolist() == [0, 1, 2, 3, 4]


def test_a_group_larger_than_the_limit_is_not_made() -> None:
    chosen = choose([4.0, 3.0, 2.0, 1.0], limit=0.45)
    assert np.bincount(chosen.group).max() == 2
    assert len(chosen.decided) < 4  # what the limit forbids is no choice


def test_a_group_has_a_device_in_common() -> None:
    allowed = np.array([[True, False], [True, True], [False, True], [False, True], [True, True]])
    group = choose([4.0, 3.0, 2.0, 1.0], allowed=allowed).group
    for one in np.unique(group):
        assert allowed[group == one].all(axis=0).any()


def test_an_edge_is_kept_as_often_as_its_score_says() -> None:
    rng = np.random.default_rng(0)
    kept = [choose([0.0, -50.0, 1.0, -50.0], rng=rng, depth=1).kept for _ in range(600)]
    chosen = choose([0.0, -50.0, 1.0, -50.0], depth=1).decided.tolist()
    shares = dict(zip(chosen, np.mean(kept, axis=0), strict=True))
    assert abs(shares[2] - 1.0 / (1.0 + np.exp(-1.0))) < 0.07
    assert abs(shares[0] - 0.5) < 0.07


def test_runs_join_neighbours_in_topological_order() -> None:
    edges = add_runs(torch.tensor([[0], [2]]), 3)
    assert edges.tolist() == [[0, 0, 1], [2, 1, 2]]


def sampled(agent: REINFORCE) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    observation = obs_as_tensor(agent.env.reset(), torch.device("cpu"))
    with torch.no_grad():
        actions, _, log_prob = agent.policy(observation)
    return observation, actions, log_prob


def test_every_placement_of_a_rollout_keeps_its_own_groups() -> None:
    agent = make(limited(), 0, start="random", **SMALL)
    observation, actions, log_prob = sampled(agent)
    order = torch.randperm(len(actions))
    mixed = {key: value[order] for key, value in observation.items()}
    with torch.no_grad():
        _, again, _ = agent.policy.evaluate_actions(mixed, actions[order])
    torch.testing.assert_close(again, log_prob[order])
    groupings = {
        tuple(steps[0].group.tolist()) for steps in agent.policy.rollout.graph_steps.values()
    }
    assert len(groupings) > 3


def test_placements_sampled_one_by_one_have_their_own_groups() -> None:
    env = limited()
    options = {"preset": "hsdag", "graphs": env.graph_table(devices=True), "hidden": 16}
    model = PPO(HSDAGPolicy, env, n_steps=20, batch_size=5, policy_kwargs=options, seed=0)
    model.policy.set_training_mode(False)
    observation = obs_as_tensor(model.env.reset(), model.device)
    with torch.no_grad():
        sampled = [model.policy(observation) for _ in range(5)]
        for actions, _, log_prob in reversed(sampled):
            again = model.policy.evaluate_actions(observation, actions)[1]
            torch.testing.assert_close(again, log_prob)
    assert len(set(model.policy.memory.variants.values())) > 3


def test_edges_are_not_chosen_without_groups() -> None:
    with pytest.raises(UserError, match="choose_edges=False"):
        make(limited(), 0, policy={"grouping": False})


def test_the_likelihood_of_groups_counts_and_teaches_the_scorer() -> None:
    agent = make(limited(), 0, start="random", **SMALL)
    observation, actions, _ = sampled(agent)
    _, log_prob, _ = agent.policy.evaluate_actions(observation, actions)
    log_prob.sum().backward()
    scorer = agent.policy.networks.scorer
    assert all(p.grad is not None and bool(p.grad.any()) for p in scorer.parameters())


def test_imitation_alone_cuts_where_devices_differ() -> None:
    env = limited()
    agent = make(env, 0, start="random", gradient=0.0, ent_coef=0.0, **SMALL)
    n = env.problem.n_units
    split = torch.arange(n)[None] >= n // 2
    observation, _, _ = sampled(agent)
    one = {key: value[:1] for key, value in observation.items()}
    before = agent.policy.unit_log_prob(one, split.long()).item()
    optimizer = torch.optim.Adam(agent.policy.parameters(), 1e-2)
    for _ in range(12):
        agent.policy.clear_caches()
        optimizer.zero_grad()
        (-agent.policy.unit_log_prob(one, split.long())).sum().backward()
        optimizer.step()
    agent.policy.clear_caches()
    assert agent.policy.unit_log_prob(one, split.long()).item() > before + 0.2
    placed = agent.policy.predict({k: v.numpy() for k, v in one.items()}, deterministic=True)[0]
    group = next(iter(agent.policy.greedy.graph_steps.values()))[0].group
    assert int(group.max()) + 1 < n
    assert placed.shape == (1, n)


def test_samples_and_prediction_fit() -> None:
    env = limited()
    agent = make(env, 0, start="random", **SMALL)
    _, actions, _ = sampled(agent)
    assert all(not env.problem.infeasibility(one) for one in actions.numpy())
    agent.learn(20)
    assert play_episode(env, agent)["feasible"]


def test_groups_likelihood_covers_every_kept_and_cut_edge() -> None:
    agent = make(limited(), 0, start="random", **SMALL)
    policy = agent.policy
    with torch.no_grad():
        policy.networks.scorer[-1].weight.zero_()
        policy.networks.scorer[-1].bias.fill_(0.5)
        policy.clear_caches()
        observation = obs_as_tensor(agent.env.reset(), torch.device("cpu"))
        policy.variants = torch.arange(len(observation["step"]))
        found = policy.decide(observation).distribution.groups[0]
    for variant, log_prob in enumerate(found.tolist()):
        (choices,) = [
            steps[0].choices
            for (_, number), steps in policy.rollout.graph_steps.items()
            if number == variant
        ]
        signs = np.where(choices.kept.numpy(), 1.0, -1.0)
        expected = -np.log1p(np.exp(-signs * (0.5 + choices.offset))).sum()
        assert abs(log_prob - expected) < 1e-3 * abs(expected)
