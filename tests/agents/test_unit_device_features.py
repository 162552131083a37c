# White-box tests of agents.common
"""Features of units on devices."""

from __future__ import annotations

import pytest
import torch
from learned import simulated
from torch import Tensor

from agents.common import COLUMNS, describe_units_on_devices
from agents.common.graphs import Graphs
from placement_gym.base import UserError

LIMITED = ["CPU", {"name": "GPU", "weight_share": 0.4}]


def tensors(observation: dict[str, object]) -> dict[str, Tensor]:
    return {key: torch.as_tensor(value)[None] for key, value in observation.items()}


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
