"""Observations as heterogeneous graphs: units and devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from learned import simulated
from torch import Tensor, nn
from torch_geometric.data import Batch, HeteroData
from torch_geometric.nn import GATv2Conv, HeteroConv, SAGEConv
from torch_geometric.transforms import ToUndirected

from agents.common import to_hetero_data
from agents.common.graph_data import MissingGraphError

PADDED = {"max_nodes": 80, "max_edges": 120, "max_devices": 5, "observe_devices": True}
THREE = "CPU,GPU.0,NPU"
PLACED_ON, RUNS_ON = ("unit", "placed_on", "device"), ("unit", "runs_on", "device")
SENDS_TO = ("device", "sends_to", "device")


def graph_of(model: str = "tiny", **kwargs: Any) -> HeteroData:
    env = simulated(model, **PADDED, **kwargs)
    env.reset()
    rng = np.random.default_rng(0)
    action = rng.integers(len(env.problem.devices), size=env.action_space.shape)
    return to_hetero_data(env.step(action)[0])


def convolve(data: Any) -> dict[str, Tensor]:
    """Two rounds over every type of edge, in both directions."""
    torch.manual_seed(0)
    data = ToUndirected(merge=False)(data)

    def layer(kind: Any) -> nn.Module:
        return kind((-1, -1), 8, add_self_loops=False) if kind is GATv2Conv else kind((-1, -1), 8)

    for kind in (SAGEConv, GATv2Conv):
        conv = HeteroConv({edge: layer(kind) for edge in data.edge_types})
        for key, x in conv(data.x_dict, data.edge_index_dict).items():
            data[key].x = x
    found: dict[str, Tensor] = data.x_dict
    return found


def test_edges_say_where_units_are_and_what_they_take() -> None:
    env = simulated("tiny", **PADDED, devices=THREE)
    observation, _ = env.reset()
    data = to_hetero_data(observation)
    assert data.validate()
    assert (data["unit"].num_nodes, data["device"].num_nodes) == (env.problem.n_units, 3)
    assert data[PLACED_ON].edge_index[1].tolist() == data["unit"].placement.tolist()
    unit, device = data[RUNS_ON].edge_index
    assert len(unit) == env.problem.supported.sum()
    np.testing.assert_array_equal(
        data[RUNS_ON].edge_attr[:, 0], observation["unit_ms"][unit, device]
    )
    source, target = data[SENDS_TO].edge_index
    assert len(source) == 6
    np.testing.assert_array_equal(data[SENDS_TO].edge_attr, observation["links"][source, target])
    np.testing.assert_array_equal(data["device"].room, observation["room"][:3])
    assert data.graph_id.item() == observation["graph_id"].item()


def test_a_convolution_sees_only_the_graph_of_its_own() -> None:
    graphs = [graph_of("tiny"), graph_of("resnet", devices=THREE)]
    both = convolve(Batch.from_data_list(graphs))
    first = convolve(graphs[0])
    for kind in ("unit", "device"):
        torch.testing.assert_close(both[kind][: len(first[kind])], first[kind])


def test_devices_must_be_observed() -> None:
    with pytest.raises(MissingGraphError, match="observe_devices=True"):
        to_hetero_data(simulated().reset()[0])
    hidden = simulated(observe_devices=True, observe_graph=False)
    with pytest.raises(MissingGraphError, match="observe_graph=True"):
        to_hetero_data(hidden.reset()[0])
