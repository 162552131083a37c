# White-box tests of agents.common, agents.gdp
"""GO: its network, its PPO for many units, and its training across problems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from learned import SIMULATED, SMALL_GO, simulated
from learned import small_go as agent

from agents.common import TensorDict, save_weights
from agents.common.graphs import Graphs
from agents.gdp import GOOptions, make, make_gcn, make_trainer, networks
from agents.gdp.networks import DeviceHead, Neighbours, SegmentAttention, take_largest
from agents.gdp.policy import GOPolicy
from placement_gym.base import UserError
from placement_gym.envs import GRAPH_IDS


def segments() -> SegmentAttention:
    torch.manual_seed(0)
    return SegmentAttention(GOOptions(hidden=8, heads=2, segment=4, memory=2), 1)


def test_a_unit_gets_the_largest_message_of_its_neighbours() -> None:
    sent = torch.tensor([[0.1], [0.9], [0.5]])
    edges = torch.tensor([[0, 1], [2, 2]])
    largest = take_largest(sent, Neighbours.from_edges(edges, 3))
    torch.testing.assert_close(largest, torch.tensor([[0.5], [0.5], [0.9]]))


def test_segment_reads_earlier_units_as_far_as_its_memory() -> None:
    network, context = segments(), torch.zeros(8)
    x = torch.randn(12, 8)
    expected = network(x, context)
    for changed, reached in ((2, slice(0, 8)), (0, slice(0, 4)), (9, slice(8, 12))):
        other = x.clone()
        other[changed] += 1.0
        same = (network(other, context) == expected).all(dim=1)
        assert not same[reached].any()
        same[reached] = True
        assert same.all()


def test_gradients_stay_in_a_segment_and_survive_recomputation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gradients = []
    for recompute in (True, False):
        if not recompute:
            monkeypatch.setattr(networks, "checkpoint", lambda run, *args, **_: run(*args))
        network, x = segments(), torch.ones(12, 8, requires_grad=True)
        torch.manual_seed(1)
        shifted = x + torch.randn(12, 8)
        network(shifted, torch.ones(8))[4:8].square().sum().backward()
        weights = torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
        assert x.grad is not None
        assert x.grad[4:8].any()
        assert not x.grad[:4].any()
        gradients.append(torch.cat([weights, x.grad.flatten()]))
    torch.testing.assert_close(*gradients)


def table(**kwargs: Any) -> tuple[TensorDict, Any]:
    env = simulated(**{"devices": "cpu+2dgpu", **kwargs})
    known = env.graph_table(devices=True)
    return {"graph_id": torch.tensor([[next(iter(known))]]) / GRAPH_IDS}, known


def test_logits_follow_different_devices() -> None:
    seen, known = table(devices="CPU,GPU,NPU")
    graphs, _ = Graphs(known).batch(seen)
    order = torch.tensor([2, 0, 1])
    tables = graphs.device_tables
    turned = replace(
        tables,
        devices=tables.devices[:, order],
        links=tables.links[:, order][:, :, order],
        unit_ms=tables.unit_ms[:, order],
    )
    head, h = DeviceHead(16, 8), torch.randn(len(graphs.x), 16)
    expected = head(h, graphs)[:, order]
    torch.testing.assert_close(head(h, replace(graphs, tables=turned)), expected)
    assert not torch.allclose(head(h, graphs), expected)


def test_equal_devices_are_told_apart() -> None:
    seen, known = table()
    graphs, _ = Graphs(known).batch(seen)
    head, h = DeviceHead(16, 8), torch.randn(len(graphs.x), 16)
    _, second, third = head(h, graphs).T
    assert ((second - third).std() > 0.01).item()


def test_a_policy_that_does_not_know_the_devices_says_what_to_do() -> None:
    env = simulated()
    model = make(env, 0, policy={**SMALL_GO, "graphs": env.graph_table()})
    with pytest.raises(UserError, match="observe_devices=True"):
        model.learn(20)


def test_ppo_stops_at_a_unit_whose_ratio_leaves_the_range() -> None:
    model = agent(n_epochs=1)
    model.learn(20)
    (batch,) = model.rollout_buffer.get(batch_size=None)
    batch = batch._replace(advantages=torch.ones_like(batch.advantages))
    model.compute_losses(batch)
    unit, others = 3, [0, 1, 2, 4, 5, 6]
    for before in model.before.values.values():
        before[unit] -= 0.5
    logits: list[torch.Tensor] = []
    model.policy.head.register_forward_hook(lambda *args: logits.append(args[-1]))
    loss = model.compute_losses(batch)[0]
    (gradient,) = torch.autograd.grad(loss, logits[-1])
    assert not gradient[unit].any()
    assert gradient[others].any(dim=1).all()


def test_weights_fit_another_graph_and_other_devices(tmp_path: Path) -> None:
    first = agent()
    first.learn(20)
    save_weights(first, tmp_path / "go.safetensors")
    other = gym.make(SIMULATED, model="resnet", devices="cpu+2dgpu")
    second = agent(other, weights=tmp_path / "go.safetensors")
    for name, value in second.policy.state_dict().items():
        torch.testing.assert_close(value, first.policy.state_dict()[name])
    action, _ = second.predict(other.reset()[0], deterministic=True)
    assert other.action_space.contains(np.asarray(action))


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    save_weights(agent(), tmp_path / "go.safetensors")
    with pytest.raises(UserError, match="does not fit this policy"):
        agent(policy={"hidden": 8}, weights=tmp_path / "go.safetensors")
    with pytest.raises(UserError, match="does not fit this policy"):
        make_gcn(simulated(), 0, weights=tmp_path / "go.safetensors")


@pytest.mark.parametrize("sizes", [{"memory": 0}, {"segment": 0}, {"hidden": 30, "heads": 4}])
def test_sizes_out_of_range_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(UserError, match=next(iter(sizes))):
        agent(policy=sizes)


def test_a_training_without_placements_to_compare_is_refused() -> None:
    with pytest.raises(UserError, match="episodes"):
        make_trainer(problems=1, episodes=1)


@pytest.mark.slow
def test_it_learns_on_generated_problems() -> None:
    trainer = make_trainer(problems=2, episodes=2, policy=SMALL_GO)
    before = torch.nn.utils.parameters_to_vector(trainer.policy.parameters()).clone()
    trainer.learn(8)
    after = torch.nn.utils.parameters_to_vector(trainer.policy.parameters())
    assert isinstance(trainer.policy, GOPolicy)
    assert torch.isfinite(after).all()
    assert not torch.equal(before, after)


@pytest.mark.slow
def test_the_paper_preset_finds_the_toys_optimum() -> None:
    model = make(simulated(), 0, preset="paper", learning_rate=1e-3)
    model.learn(1500)
    action, _ = model.predict(simulated().reset()[0], deterministic=True)
    assert simulated().backend.evaluate(action).speedup == pytest.approx(12.552, rel=1e-3)
