# White-box tests of agents.graph_groups
"""Logits and groups that follow: what they sample, how likely it is, and what they learn."""

from __future__ import annotations

from itertools import product

import gymnasium as gym
import numpy as np
import pytest
import torch
from learned import SIMULATED, several, simulated
from stable_baselines3 import PPO
from torch import Tensor

import agents
from agents.graph_groups.following import FollowingDevices
from agents.graph_groups.tables import RunTable
from agents.logits import LogitsPolicy
from placement_gym.base import UserError
from placement_gym.envs import play_episode
from placement_gym.solvers import minimum_cut

NAMES = ("logits", "graph-groups")
LEADER = torch.tensor([[0, 0, 1, 1]])


def following(allowed: Tensor | None = None, rows: int = 1) -> FollowingDevices:
    torch.manual_seed(0)
    logits, keep = torch.randn(1, 4, 3), torch.randn(1, 4)
    row = torch.zeros(rows, dtype=torch.int64)
    return FollowingDevices(logits, keep, LEADER, torch.ones(1, 4).bool(), allowed, row)


def every_placement() -> Tensor:
    return torch.tensor(list(product(range(3), repeat=4)))


def brute_force(logits: Tensor, keep: Tensor, placement: Tensor) -> float:
    """Sum over who follows: the probability of a placement."""
    own, stay, total = logits.softmax(dim=-1)[0], keep.sigmoid()[0], 0.0
    for follows in product((False, True), repeat=4):
        if follows[0]:
            continue  # the first unit has no leader
        share = 1.0
        for unit, leader in enumerate(LEADER[0].tolist()):
            if follows[unit]:
                share *= float(stay[unit]) * float(placement[unit] == placement[leader])
            else:
                alone = 1.0 if unit == leader else 1.0 - float(stay[unit])
                share *= alone * float(own[unit, placement[unit]])
        total += share
    return total


def test_likelihoods_are_those_of_all_ways_to_a_placement() -> None:
    placements = every_placement()
    devices = following(rows=len(placements))
    found = devices.log_prob(placements).exp()
    expected = [brute_force(*devices.given[:2], one) for one in placements]
    torch.testing.assert_close(found, torch.tensor(expected))
    assert found.sum().item() == pytest.approx(1.0)


def test_the_mode_of_a_larger_graph_is_that_without_a_smaller_one() -> None:
    torch.manual_seed(0)
    logits, keep = torch.randn(2, 4, 3), torch.full((2, 4), 9.0)
    mask = torch.tensor([[True, True, False, False], [True] * 4])
    leader = LEADER.expand(2, 4)
    alone = FollowingDevices(logits[1:], keep[1:], leader[1:], mask[1:])
    both = FollowingDevices(logits, keep, leader, mask)
    torch.testing.assert_close(both.mode()[1], alone.mode()[0])
    assert alone.mode().unique().numel() == 1  # all follow the first


def test_samples_are_as_frequent_as_likely() -> None:
    devices = following(rows=200_000)
    sampled = devices.get_actions()
    counts = torch.bincount(sampled @ torch.tensor([27, 9, 3, 1]), minlength=81) / len(sampled)
    likely = following(rows=81).log_prob(every_placement()).exp()
    assert (counts - likely).abs().max() < 4 * (0.25 / len(sampled)) ** 0.5
    # the most likely device of each unit, whatever the others have
    marginal = torch.stack([(every_placement() == d).T.float() @ likely for d in range(3)], dim=1)
    assert torch.equal(devices.get_actions(deterministic=True)[0], marginal.argmax(dim=1))


def test_a_device_that_is_not_allowed_is_never_chosen() -> None:
    allowed = torch.ones(1, 4, 3).bool()
    allowed[0, 2, 0] = False
    devices = following(allowed, rows=5_000)
    assert (devices.get_actions()[:, 2] != 0).all()
    placements = every_placement()
    one_each = following(allowed, rows=len(placements))
    assert one_each.log_prob(placements).exp().sum().item() == pytest.approx(1.0)
    masked = following(rows=len(placements)).restricted_to(allowed.expand(len(placements), -1, -1))
    torch.testing.assert_close(masked.log_prob(placements), one_each.log_prob(placements))


def test_entropy_counts_the_choices_of_those_who_do_not_follow() -> None:
    uniform = torch.zeros(1, 4, 3)
    alone = FollowingDevices(uniform, torch.full((1, 4), -50.0), LEADER, torch.ones(1, 4).bool())
    assert alone.entropy().item() == pytest.approx(4 * np.log(3), rel=1e-5)
    together = FollowingDevices(uniform, torch.full((1, 4), 50.0), LEADER, torch.ones(1, 4).bool())
    assert together.entropy().item() == pytest.approx(np.log(3), rel=1e-5)


@pytest.mark.parametrize("n_units", [1, 2, 7, 64])
def test_runs_of_every_size_cover_all_units(n_units: int) -> None:
    table = RunTable(n_units, 2)
    assert not table().any()
    assert table().shape == (n_units, 2)
    with torch.no_grad():
        table.values.fill_(1.0)
    assert (table() == len(table.index)).all()  # one run of each level
    widest = torch.bincount(table.index[-1] - table.index[-1].min())
    assert widest.max() == n_units  # the longest run holds all


def test_a_value_of_a_run_moves_its_units_alone() -> None:
    table = RunTable(8, 1)
    with torch.no_grad():
        table.values[table.index[1, 2]] = 3.0
    assert table()[:, 0].tolist() == [0, 0, 3, 3, 0, 0, 0, 0]


def test_shifted_runs_cross_the_borders_of_the_others() -> None:
    pairs = {tuple(np.flatnonzero(level == run)) for level in RunTable(8, 1).index for run in level}
    assert {(2, 3), (1, 2), (4, 5, 6, 7), (2, 3, 4, 5), tuple(range(8))} <= pairs


def test_a_step_of_a_table_is_relative_to_the_learning_rate() -> None:
    table = RunTable(8, 1, step=100.0)
    optimizer = torch.optim.Adam(table.parameters(), lr=1e-3)
    table()[0].sum().backward()
    optimizer.step()
    n_levels = len(table.index)
    assert table()[0].item() == pytest.approx(-0.1 * n_levels, rel=1e-3)


def test_equal_placements_do_not_scale_their_noise() -> None:
    for rewards, largest in (([0.5, 0.501], 0.02), ([0.5, 1.5], 1.0)):
        agent = agents.make("logits", gym.make(SIMULATED, model="tiny"), envs={"num_envs": 2})
        agent.env.envs.reward = lambda *_, rewards=rewards: np.array(rewards)
        advantages = agent.learn(2).rollout_buffer.advantages
        assert np.abs(advantages).max() == pytest.approx(largest, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_each_comes_near_the_toys_optimum(name: str) -> None:
    env = simulated()
    best = env.backend.evaluate(minimum_cut(env.problem.units, env.cost_table()).assignment)
    agent = agents.make(name, gym.make(SIMULATED, model="tiny"), seed=0)
    agent.learn(1_000)
    assert play_episode(env, agent)["speedup"] > 0.9 * best.speedup


def test_groups_learn_a_large_graph_faster() -> None:
    means = []
    for name in NAMES:
        env = gym.make(SIMULATED, model="family-attention-300-seed1", devices="cpu+2dgpu")
        agent = agents.make(name, env, seed=0)
        agent.learn(400)
        means.append(np.mean([info["r"] for info in agent.ep_info_buffer]))
    assert means == sorted(means)


def test_the_first_placements_have_about_as_many_groups_as_asked() -> None:
    env = gym.make(SIMULATED, model="bert")
    agent = agents.make("graph-groups", env, seed=0, policy={"groups": 20})
    observation = agent.policy.obs_to_tensor(env.reset()[0])[0]
    devices = agent.policy.decide(observation).distribution
    assert 15 < devices.leave.exp()[devices.mask].sum() < 40


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UserError, match="one graph only"):
        PPO(LogitsPolicy, several("tiny", "resnet"), device="cpu").learn(1)
