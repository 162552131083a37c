# White-box tests of agents.common, agents.rnn
"""The sequence-to-sequence network, and groups that are drawn."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from learned import first_observation, several, simulated
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import Tensor

from agents.common import PlacementMemory, UnitCategorical, vectorize
from agents.common.graphs import Graphs
from agents.rnn import HDPPolicy, RNNOptions, RNNPolicy, make, make_hierarchical, networks
from agents.rnn.groups import GroupedDevices, UnitGroups, order_groups
from agents.rnn.networks import AutoregressiveDevices, Seq2Seq, Sequences, UnitFeatures
from placement_gym.envs import neg_sqrt_latency

WIDTH, N_DEVICES = 5, 3


def network(segment: int = 128) -> Seq2Seq:
    torch.manual_seed(0)
    options = RNNOptions(hidden=8, decoder=16, attention=4, segment=segment)
    return Seq2Seq(WIDTH, N_DEVICES, options)


def sequence(
    net: Seq2Seq, lengths: tuple[int, ...] = (4,), copies: int = 1
) -> AutoregressiveDevices:
    torch.manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    row = torch.arange(len(lengths)).repeat(copies)
    encoding = net.encode(torch.randn(len(lengths), max(lengths), WIDTH), mask)
    return AutoregressiveDevices(net, Sequences(encoding[row], mask[row], None))


def every(length: int) -> Tensor:
    """(n_devices ** length, length) all placements."""
    return torch.tensor(list(product(range(N_DEVICES), repeat=length)))


@torch.no_grad()
def test_the_likelihoods_of_all_placements_sum_to_one() -> None:
    placements = every(4)
    choice = sequence(network(), copies=len(placements))
    total = choice.conditioned_on(placements).log_prob(placements).exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("segment", [2, 128])
@torch.no_grad()
def test_placements_are_sampled_as_often_as_their_likelihood(segment: int) -> None:
    net, n = network(segment), 8_000
    net.place.weight.mul_(4.0)  # far from uniform
    drawn = sequence(net, (3,), n).get_actions()
    placements = every(3)
    expected = (
        sequence(net, (3,), len(placements)).conditioned_on(placements).log_prob(placements).exp()
    )
    code = drawn @ torch.tensor([9, 3, 1])
    found = torch.bincount(code, minlength=27) / n
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0.0)


@torch.no_grad()
def test_device_depends_only_on_the_ones_before_it() -> None:
    net = network()
    first, second = torch.tensor([[0, 1, 0, 2]]), torch.tensor([[0, 1, 1, 0]])
    one, other = (sequence(net).conditioned_on(devices).log_probs for devices in (first, second))
    torch.testing.assert_close(one[:, :3], other[:, :3])
    assert not torch.allclose(one[:, 3], other[:, 3])


@torch.no_grad()
def test_padding_changes_nothing() -> None:
    net = network(segment=3)
    devices = torch.tensor([[0, 1, 2, 0], [1, 1, 0, 0]])
    padded = sequence(net, (4, 2)).conditioned_on(devices)
    torch.manual_seed(1)
    places = torch.randn(2, 4, WIDTH)[1:, :2]
    mask = torch.ones(1, 2, dtype=torch.bool)
    alone = Sequences(net.encode(places, mask), mask, None)
    expected = net.compute_logits(alone, devices[1:, :2]).log_softmax(dim=2)
    torch.testing.assert_close(padded.log_probs[1:, :2], expected)


def test_computing_segments_again_leaves_the_gradient_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    devices = torch.randint(N_DEVICES, (2, 7))
    gradients = []
    for again in (True, False):
        net = network(segment=3)
        if not again:
            direct: Any = lambda step, *args, use_reentrant: step(*args)  # noqa: E731
            monkeypatch.setattr(networks, "checkpoint", direct)
        sequence(net, (7,), 2).conditioned_on(devices).log_prob(devices).sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
    torch.testing.assert_close(*gradients)
    assert gradients[0].any()


def test_groups_come_in_the_order_of_their_first_units() -> None:
    groups = torch.tensor([[5, 2, 5, 0, 2], [1, 1, 1, 0, 0]])
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    places = order_groups(groups, mask)
    assert places.group.tolist() == [[0, 1, 0, 2, 1], [0, 0, 0, 0, 0]]
    assert places.is_group.tolist() == [[True, True, True], [True, False, False]]


def test_units_of_a_group_go_together_and_share_a_likelihood() -> None:
    torch.manual_seed(0)
    net = network()
    grouper = UnitCategorical(torch.randn(1, 6, 4), row=torch.zeros(5, dtype=torch.int64))
    mask = torch.ones(5, 6, dtype=torch.bool)
    groups: list[Tensor] = []

    def place_groups(drawn: UnitGroups) -> AutoregressiveDevices:
        groups.append(drawn.group)
        inputs, taken = torch.zeros(*drawn.is_group.shape, WIDTH), drawn.is_group
        return AutoregressiveDevices(net, Sequences(net.encode(inputs, taken), taken, None))

    choice = GroupedDevices(
        grouper, place_groups, PlacementMemory(), torch.zeros(5, dtype=torch.int64), mask
    )
    devices = choice.get_actions()
    for row, place in enumerate(groups[0]):
        for group in place.unique():
            assert len(devices[row, place == group].unique()) == 1
    joint = choice.conditioned_on(devices)
    torch.testing.assert_close(groups[1], groups[0])
    of_groups = joint.devices.log_prob(joint.group_devices)
    torch.testing.assert_close(joint.log_prob(devices), grouper.log_prob(joint.groups) + of_groups)


def test_placement_keeps_its_first_groups_until_the_rollout_ends() -> None:
    memory, graph = PlacementMemory(), torch.tensor([3])
    devices, first, later = (torch.tensor([values]) for values in ([0, 1], [1, 2], [0, 0]))
    memory.keep(graph, devices, first)
    memory.keep(graph, devices, later)
    assert memory.recall(graph, devices, later).tolist() == first.tolist()
    assert memory.recall(graph + 1, devices, later).tolist() == later.tolist()
    env = vectorize(simulated(), num_envs=4)
    policy = PPO(HDPPolicy, env, device="cpu", seed=0, policy_kwargs=table(env)).policy
    policy(first_observation(env))
    assert policy.memory.values
    policy.set_training_mode(True)
    assert policy.memory.values
    policy.set_training_mode(False)
    assert not policy.memory.values


def table(env: Any) -> dict[str, Any]:
    return {"graphs": env.get_attr("graph_table")[0](), "hidden": 16, "decoder": 32}


def test_prediction_is_repeatable_and_takes_no_random_numbers() -> None:
    env = vectorize(simulated(), num_envs=2)
    policy = PPO(HDPPolicy, env, device="cpu", seed=0, policy_kwargs=table(env)).policy
    before = torch.get_rng_state()
    answers = [policy.predict(env.reset(), deterministic=True)[0].tolist() for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("policy", [RNNPolicy, HDPPolicy])
def test_predictions_do_not_depend_on_who_is_beside(policy: type[RNNPolicy]) -> None:
    sizes = {"max_nodes": 80, "max_edges": 120}
    envs = [simulated(model, **sizes) for model in ("tiny", "resnet")]
    both = DummyVecEnv([lambda env=env: env for env in envs])
    model = PPO(policy, both, device="cpu", seed=0).policy
    together = model.evaluate_actions(first_observation(both), torch.zeros(2, 80))[1]
    for row, env in enumerate(envs):
        alone = model.evaluate_actions(
            first_observation(DummyVecEnv([lambda env=env: env])), torch.zeros(1, 80)
        )
        torch.testing.assert_close(alone[1][0], together[row])


@torch.no_grad()
def test_likelihood_is_the_same_in_any_part_of_a_rollout() -> None:
    env = several("tiny", "synthetic-layered-20")
    options = {"hidden": 8, "decoder": 16, "attention": 4}
    model = PPO(RNNPolicy, env, device="cpu", seed=0, policy_kwargs=options).policy
    actions, _, sampled = model(first_observation(env))
    for row in ([0], [1], [1, 0]):
        part = {key: value[row] for key, value in first_observation(env).items()}
        again = model.evaluate_actions(part, actions[row])[1]
        torch.testing.assert_close(again, sampled[row])


@torch.no_grad()
def test_groups_take_only_what_all_their_units_can_run_on() -> None:
    env = simulated("synthetic-layered-30")
    env.problem.supported[[3, 9, 15], 1] = False
    model = make_hierarchical(env, 0)
    actions, _, likelihood = model.policy(first_observation(model.env))
    assert all(env.problem.support_error(one.numpy()) == "" for one in actions)
    assert likelihood.min() > -1e6


@pytest.mark.parametrize("policy", [RNNPolicy, HDPPolicy])
def test_expected_returns_do_not_depend_on_padding(policy: type[RNNPolicy]) -> None:
    expected = []
    for sizes in ({}, {"max_nodes": 20, "max_edges": 30}):
        env = DummyVecEnv([lambda sizes=sizes: simulated(**sizes)])
        expected.append(
            PPO(policy, env, device="cpu", seed=0).policy.predict_values(first_observation(env))
        )
    torch.testing.assert_close(*expected)


def test_the_paper_is_rewarded_by_the_root_of_the_latency() -> None:
    assert make(simulated(), 0, preset="paper").env.envs.reward is neg_sqrt_latency


def test_predicting_keeps_no_groups() -> None:
    env = vectorize(simulated(), num_envs=2)
    policy = PPO(HDPPolicy, env, device="cpu", seed=0, policy_kwargs=table(env)).policy
    policy.predict(env.reset(), deterministic=False)
    assert not policy.memory.values


def test_unit_reads_itself_and_means_of_its_neighbours() -> None:
    env = simulated("resnet", max_nodes=80)
    graphs, _ = Graphs().batch(first_observation(DummyVecEnv([lambda: env])))
    units = UnitFeatures(["type", "shape"])
    found, n = units(graphs)[0], env.problem.n_units
    x, edges = graphs.scaled[:, units.columns], graphs.edge_index
    for unit in range(n):
        producers, consumers = edges[0][edges[1] == unit], edges[1][edges[0] == unit]
        means = [
            x[others].mean(dim=0) if len(others) else torch.zeros(x.shape[1])
            for others in (producers, consumers)
        ]
        torch.testing.assert_close(found[unit], torch.cat([x[unit], *means]))
    assert not found[n:].any()
