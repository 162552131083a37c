"""Observations as heterogeneous graphs of PyTorch Geometric: units and devices are nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from agents.common.graph_data import MissingGraphError, to_data
from agents.common.pyg import HeteroData

UNIT_KEYS = ("x", "placement", "visited", "start_ms", "unit_bytes")
GRAPH_KEYS = ("step", "graph_id", "current_unit", "scale_ms")


def to_hetero_data(observation: Mapping[str, Any]) -> HeteroData:
    """One observation as a graph of units and devices, without padding.

    Several become a batch as those of ``to_data`` do, with any numbers of devices. For messages
    from devices to units, PyTorch Geometric's ``ToUndirected(merge=False)`` adds reverse edges.

    Args:
        observation: Of an environment with ``observe_devices=True`` and ``observe_graph=True``,
            not vectorised.

    Returns:
        Nodes ``unit``: ``x`` (n, N_FEATURES) float32, ``placement`` (n,) int64 and ``unit_bytes``
        (n,); of one unit per step also ``visited`` and ``start_ms`` (n,). Nodes ``device``: ``x``
        (D, 5), the observation's ``devices``, and ``room`` and ``memory_pool`` (D,). Edges, with
        their ``edge_attr``:

        - ``unit, feeds, unit``: (e, 3), as observed.
        - ``unit, placed_on, device``: none; one for each unit.
        - ``unit, runs_on, device``: (m, 1), the unit's time; one for each supported device.
        - ``device, sends_to, device``: (D * (D - 1), 2), the times of ``links``.

        Of the graph as a whole, (1, 1): ``step``, ``graph_id``, ``scale_ms``, ``current_unit``.

    Raises:
        MissingGraphError: The observation carries no graph or no devices.
    """
    graph = to_data(observation)
    if "devices" not in observation:
        raise MissingGraphError(
            "the observation carries no devices: make the environment with observe_devices=True"
        )
    n_devices = int(np.asarray(observation["device_mask"]).sum())  # padding comes last
    data = HeteroData({key: graph[key] for key in GRAPH_KEYS if key in graph})
    for key in UNIT_KEYS:
        if key in graph:
            data["unit"][key] = graph[key]
    data["device"].x = graph.devices[0, :n_devices]
    data["device"].room = graph.room[0, :n_devices]
    data["device"].memory_pool = graph.memory_pool[0, :n_devices]
    add_edges(data, graph, n_devices)
    return data


def add_edges(data: HeteroData, graph: Any, n_devices: int) -> None:
    """Add the edges of ``to_hetero_data``, from what ``to_data`` returns."""
    feeds, placed_on = data["unit", "feeds", "unit"], data["unit", "placed_on", "device"]
    feeds.edge_index, feeds.edge_attr = graph.edge_index, graph.edge_attr
    placed_on.edge_index = torch.stack([torch.arange(graph.num_nodes), graph.placement])
    runs_on, sends_to = data["unit", "runs_on", "device"], data["device", "sends_to", "device"]
    unit, device = graph.supported[:, :n_devices].nonzero().T
    runs_on.edge_index = torch.stack([unit, device])
    runs_on.edge_attr = graph.unit_ms[unit, device][:, None]
    source, target = (1 - torch.eye(n_devices)).nonzero().T
    sends_to.edge_index = torch.stack([source, target])
    sends_to.edge_attr = graph.links[0, source, target]
