"""Choices one after another where there is room, and what policies see of units on devices."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from learned import simulated
from torch import Tensor

from agents.common import pairs
from agents.common.graphs import Graphs
from agents.common.room import Room, RoomCategorical
from placement_gym.errors import UserError

HELD, LIMITS = (0.3, 0.2, 0.25, 0.25), (0.5, 0.5, 1.0)


def tensors(observation: dict[str, object]) -> dict[str, Tensor]:
    return {key: torch.as_tensor(value)[None] for key, value in observation.items()}


def choices(n_rows: int = 1, leader: Tensor | None = None) -> RoomCategorical:
    torch.manual_seed(0)
    room = Room(torch.tensor([HELD]).double(), torch.tensor([LIMITS]).double())
    weight = torch.ones(1, 4, dtype=torch.bool)
    if leader is not None:
        weight = leader == torch.arange(4)
    row = torch.zeros(n_rows, dtype=torch.int64)
    return RoomCategorical(torch.randn(1, 4, 3), room, weight, leader, None, row)


def used(placements: Tensor) -> Tensor:
    """(k, 3) what devices hold."""
    chosen = torch.nn.functional.one_hot(placements, 3).double()
    return (chosen * torch.tensor(HELD).double()[:, None]).sum(dim=1)


def test_sampled_placements_fit_and_are_as_frequent_as_their_likelihood_says() -> None:
    distribution = choices(20_000)
    sampled = distribution.get_actions()
    assert (used(sampled) <= torch.tensor(LIMITS) + 1e-9).all()
    distinct, counts = torch.unique(sampled, dim=0, return_counts=True)
    likelihood = choices(len(distinct)).conditioned_on(distinct).log_prob(distinct).exp()
    assert likelihood.sum().item() == pytest.approx(1.0, abs=0.01)
    assert (counts / len(sampled) - likelihood).abs().max() < 0.015


def test_the_likelihoods_of_all_placements_that_fit_sum_to_one() -> None:
    every = torch.tensor(list(product(range(3), repeat=4)))
    fitting = every[(used(every) <= torch.tensor(LIMITS) - 1e-5).all(dim=1)]
    total = choices(len(fitting)).conditioned_on(fitting).log_prob(fitting).exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-5)


def test_followers_bring_their_bytes_with_their_leader() -> None:
    leader = torch.tensor([[0, 0, 2, 2]])
    distribution = choices(500, leader)
    sampled = distribution.get_actions()
    assert (sampled[:, 0] == sampled[:, 1]).all()
    assert (used(sampled) <= torch.tensor(LIMITS) + 1e-9).all()
    assert distribution.conditioned_on(sampled).permits(sampled).all()


def test_what_fits_nowhere_goes_where_most_room_is_left() -> None:
    room = Room(torch.tensor([[2.0]]).double(), torch.tensor([LIMITS]).double())
    one = torch.ones(1, 1, dtype=torch.bool)
    row = torch.zeros(1, dtype=torch.int64)
    distribution = RoomCategorical(torch.zeros(1, 1, 3), room, one, None, None, row)
    assert distribution.get_actions().item() == 2


LIMITED = [
    {"name": "CPU", "roofline": "CPU"},
    {"name": "GPU", "roofline": "GPU", "weight_share": 0.4},
]


def test_pairs_tell_the_faster_device_and_its_limit() -> None:
    env = simulated(devices=LIMITED, observe_devices=True)
    graphs, _ = Graphs(env.graph_table()).batch(tensors(env.reset()[0]))
    found = dict(zip(pairs.FEATURES, pairs.describe_pairs(graphs).unbind(dim=2), strict=True))
    ms = torch.as_tensor(env.cost_table().unit_ms(env.problem.units))
    fastest = found["whether the device is the fastest"]
    assert fastest.argmax(dim=1).tolist() == ms.argmin(dim=1).tolist()
    assert found["limit"][0].tolist() == pytest.approx([1.0, 0.4], abs=1e-3)
    assert found["whether the device has a limit"][0].tolist() == [0.0, 1.0]
    assert all(bool(((column >= 0) & (column <= 1)).all()) for column in found.values())


def test_a_policy_that_sees_devices_needs_graphs_that_tell_of_them() -> None:
    env = simulated()
    graphs, _ = Graphs(env.graph_table()).batch(tensors(env.reset()[0]))
    with pytest.raises(UserError, match="devices=True"):
        pairs.describe_pairs(graphs)
