# White-box tests of agents.hsdag
"""Groups of HSDAG: how they are parsed, pooled and placed."""

from __future__ import annotations

from itertools import product
from typing import Any

import gymnasium as gym
import pytest
import torch
from learned import SIMULATED, first_observation, several
from stable_baselines3 import PPO

from agents.common import MIN_COST
from agents.common import vectorize as vectorized
from agents.hsdag import HSDAGOptions, HSDAGPolicy, make
from agents.hsdag.networks import Groups, Networks
from agents.hsdag.policy import SampledGroups


def draws(policy: dict[str, Any] | None = None) -> tuple[HSDAGPolicy, Any, SampledGroups]:
    """A policy, what it sees, and its distribution of groups and devices."""
    model = make(gym.make(SIMULATED, model="tiny"), 0, policy={"groups": 3, **(policy or {})})
    seen = first_observation(model.env)
    seen = {key: value[:1] for key, value in seen.items()}
    return model.policy, seen, model.policy.decide(seen).distribution


@torch.no_grad()
def test_likelihoods_of_groups_and_devices_sum_to_one() -> None:
    _, _, devices = draws()
    n_edges, total = int(devices.valid.sum()), 0.0
    for keep in product((False, True), repeat=n_edges):
        padding = [False] * (devices.valid.shape[1] - n_edges)
        given = devices.place_groups(torch.tensor([[*keep, *padding]]))
        (deciding,) = given.weight[0].nonzero(as_tuple=True)
        shares = given.log_probs[0, deciding].exp().sum(dim=1)
        torch.testing.assert_close(shares, torch.ones_like(shares))
        total += float(given.log_keep.exp())
    assert total == pytest.approx(1.0, abs=1e-4)


def test_edges_are_kept_as_often_as_their_scores_say() -> None:
    _, _, devices = draws()
    devices.row = devices.row.repeat(2_000)
    devices.keys = devices.keys.repeat(2_000)
    kept: list[torch.Tensor] = []
    devices.memory.keep = lambda *args: kept.append(args[2])  # type: ignore[method-assign]
    devices.get_actions()
    shares, wanted = kept[0].float().mean(dim=0), devices.logits[0].sigmoid()
    assert (shares - wanted)[devices.valid[0]].abs().max() < 0.05


@torch.no_grad()
def test_groups_become_single_units_as_placements_are_drawn() -> None:
    env = gym.make(SIMULATED, model="inception")
    policy = make(env, 0, policy={"groups": 5, "refine": 100}).policy
    seen = first_observation(vectorized(env))
    sizes = []
    for drawn in (0, 200, 2_000):
        policy.drawn.fill_(drawn)
        policy.clear_caches()
        devices = policy.decide(seen).distribution
        actions = devices.get_actions()
        sizes.append(float(devices.conditioned_on(actions).weight.float().sum(dim=1).mean()))
    assert 3 < sizes[0] < 15
    assert sizes[0] < sizes[1] < sizes[2]
    assert sizes[2] > 68


@torch.no_grad()
def test_a_group_is_its_mean_gated_by_the_scores_within_it() -> None:
    torch.manual_seed(0)
    networks = Networks(HSDAGOptions(features=("type",), hidden=6), 2, critic=False)
    z, group = torch.randn(5, 6), torch.tensor([0, 0, 0, 1, 2])
    inner = torch.tensor([[0, 1, 0], [1, 2, 2]])
    score = [networks.scorer(z[u] * z[v]).sigmoid() for u, v in inner.T.tolist()]
    pooled = networks.pool_groups(z, group, inner)
    torch.testing.assert_close(pooled[0], z[:3].mean(dim=0) * torch.stack(score).mean())
    torch.testing.assert_close(pooled[1:], z[3:])


@torch.no_grad()
def test_a_group_prefers_devices_by_the_sum_of_its_times() -> None:
    networks = Networks(HSDAGOptions(features=("type",), hidden=6, cost_weight=2.0), 2, False)
    for parameter in networks.placer[-1].parameters():
        parameter.zero_()
    none = torch.empty(2, 0, dtype=torch.long)
    leader, decides = torch.tensor([[0, 0, 2]]), torch.tensor([[True, False, True]])
    group = torch.tensor([0, 0, 1])
    groups = Groups(group, none, leader, decides, None)
    costs = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    logits = networks(torch.randn(1, 3, 6), costs, groups)[decides]
    times = torch.tensor([[4.0, 6.0], [5.0, 6.0]])
    torch.testing.assert_close(logits, -2.0 * (times + MIN_COST).log())


@torch.no_grad()
def test_the_state_gains_the_embedding_of_its_group() -> None:
    policy = make(env := gym.make(SIMULATED, model="tiny"), 0, preset="paper").policy
    graphs, _ = policy.graphs.batch(first_observation(vectorized(env)))
    (graph_id,) = graphs.ids
    first, second = (policy.greedy.find_step(graphs, graph_id, step) for step in (0, 1))
    z = policy.greedy.embed(graphs)
    state = torch.nn.functional.layer_norm(z, z.shape[1:])
    inner = first.edges[:, first.group[first.edges[0]] == first.group[first.edges[1]]]
    pooled = policy.networks.pool_groups(state, first.group, inner)
    torch.testing.assert_close(z + second.shift, state + pooled[first.group])


def test_groups_of_several_graphs_are_recalled() -> None:
    envs = several("resnet", "tiny")
    graphs = {key: one for env in envs.envs for key, one in env.graph_table().items()}
    kwargs = {"graphs": graphs, "hidden": 8}
    policy = PPO(HSDAGPolicy, envs, policy_kwargs=kwargs, seed=0, device="cpu").policy
    seen = first_observation(envs)
    actions, _, log_prob = policy(seen)
    for row in (0, 1):
        one = {key: value[row : row + 1] for key, value in seen.items()}
        again = policy.evaluate_actions(one, actions[row : row + 1])[1]
        torch.testing.assert_close(again, log_prob[row : row + 1])
