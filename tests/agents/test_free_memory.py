"""Choices one after another within free memory, and features of units on devices."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from fakes import diamond_costs, diamond_problem
from learned import simulated
from torch import Tensor

from agents.common.free_memory import FreeMemory, MemoryLimitedCategorical
from agents.common.graph_data import Graphs
from agents.common.unit_device_features import COLUMNS, describe_units_on_devices
from agents.doppler.schedule import Schedules, TaskGraph
from agents.placeto.policy import leave
from placement_gym.base.errors import UserError
from placement_gym.hardware.devices import DeviceSpec

HELD, LIMITS = (0.3, 0.2, 0.25, 0.25), (0.5, 0.5, 1.0)


def tensors(observation: dict[str, object]) -> dict[str, Tensor]:
    return {key: torch.as_tensor(value)[None] for key, value in observation.items()}


def choices(n_rows: int = 1, leader: Tensor | None = None) -> MemoryLimitedCategorical:
    torch.manual_seed(0)
    memory = FreeMemory(torch.tensor([HELD]).double(), torch.tensor([LIMITS]).double())
    weight = torch.ones(1, 4, dtype=torch.bool)
    if leader is not None:
        weight = leader == torch.arange(4)
    row = torch.zeros(n_rows, dtype=torch.int64)
    return MemoryLimitedCategorical(torch.randn(1, 4, 3), memory, weight, leader, None, row)


def used(placements: Tensor) -> Tensor:
    """(k, 3) what devices hold."""
    chosen = torch.nn.functional.one_hot(placements, 3).double()
    return (chosen * torch.tensor(HELD).double()[:, None]).sum(dim=1)


def test_sampled_placements_fit_and_follow_their_likelihood() -> None:
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


def pooled(n_rows: int) -> MemoryLimitedCategorical:
    """The first two devices hold half of the model together."""
    distribution = choices(n_rows)
    pools = torch.tensor([[1, 1, 0]])
    return replace(distribution, memory=replace(distribution.memory, pools=pools))


def test_devices_of_a_pool_share_their_memory() -> None:
    sampled = pooled(5_000).get_actions()
    assert (used(sampled)[:, :2].sum(dim=1) <= 0.5 + 1e-9).all()
    assert {0, 1} <= set(sampled.unique().tolist())
    every = torch.tensor(list(product(range(3), repeat=4)))
    held = used(every)
    fitting = every[(held[:, :2].sum(dim=1) <= 0.5 - 1e-5) & (held[:, 2] <= 1.0 - 1e-5)]
    total = pooled(len(fitting)).conditioned_on(fitting).log_prob(fitting).exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-5)


def test_memory_of_unit_by_unit_policies_counts_a_pool() -> None:
    left, mine = leave(pooled(1).memory, torch.tensor([[0, 1, 2, 0]]), torch.tensor([3]))
    assert left[0].tolist() == pytest.approx([0.0, 0.0, 0.75], abs=1e-6)
    assert mine.item() == pytest.approx(0.25)


def test_schedules_offer_what_is_left_of_a_pool() -> None:
    problem = diamond_problem(POOL)  # 500 bytes together; units hold 100, 200, 300 and 400
    graph = TaskGraph.of(problem, diamond_costs(problem))
    schedules = Schedules(graph, 1, respect_memory=True)
    for node, device in ((0, 0), (1, 1)):
        offer = schedules.offer(np.array([node]))
        assert offer.allowed[0].tolist() == [True, True, True]
        schedules.add(np.array([node]), np.array([device]), offer.start)
    assert schedules.offer(np.array([2])).allowed[0].tolist() == [False, False, True]


POOL = (
    DeviceSpec("CPU", memory_pool="host", memory_bytes=500),
    DeviceSpec("GPU", memory_pool="host"),
    DeviceSpec("GPU.1"),
)


def test_what_fits_nowhere_goes_to_the_freest_device() -> None:
    memory = FreeMemory(torch.tensor([[2.0]]).double(), torch.tensor([LIMITS]).double())
    one = torch.ones(1, 1, dtype=torch.bool)
    row = torch.zeros(1, dtype=torch.int64)
    distribution = MemoryLimitedCategorical(torch.zeros(1, 1, 3), memory, one, None, None, row)
    assert distribution.get_actions().item() == 2


LIMITED = [
    {"name": "CPU", "roofline": "CPU"},
    {"name": "GPU", "roofline": "GPU", "weight_share": 0.4},
]


def test_features_show_the_faster_device_and_its_limit() -> None:
    env = simulated(devices=LIMITED, observe_devices=True)
    graphs, _ = Graphs(env.graph_table()).batch(tensors(env.reset()[0]))
    found = dict(zip(COLUMNS, describe_units_on_devices(graphs).unbind(dim=2), strict=True))
    ms = torch.as_tensor(env.cost_table().unit_ms(env.problem.units))
    fastest = found["device is the fastest"]
    assert fastest.argmax(dim=1).tolist() == ms.argmin(dim=1).tolist()
    assert found["limit"][0].tolist() == pytest.approx([1.0, 0.4], abs=1e-3)
    assert found["device has a limit"][0].tolist() == [0.0, 1.0]
    assert all(bool(((column >= 0) & (column <= 1)).all()) for column in found.values())


def test_policy_that_sees_devices_needs_graphs_with_them() -> None:
    env = simulated()
    graphs, _ = Graphs(env.graph_table()).batch(tensors(env.reset()[0]))
    with pytest.raises(UserError, match="devices=True"):
        describe_units_on_devices(graphs)
