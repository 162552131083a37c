"""Observations as graphs of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from agents.common import (
    DEVICE_KEYS,
    GRAPH_KEYS,
    Data,
    DeviceTables,
    GraphBatch,
    MissingGraphError,
    restore,
)
from placement_gym.envs import edge_index

STATE_KEYS = (
    "step", "graph_id", "current_unit", "devices", "links", "room", "memory_pool", "scale"
)  # fmt: skip
"""Keys of an observation that describe the graph as a whole; they get a leading axis of one."""
NODE_KEYS = ("x", "placement", "visited", "start", "unit_times", "unit_bytes", "supported")
"""Keys with a row for each unit."""


def to_data(observation: Mapping[str, Any]) -> Data:
    """Convert an observation to a graph of PyTorch Geometric, without padding.

    ``Batch.from_data_list([to_data(one) for one in observations])`` makes a batch of several.

    Args:
        observation: Of an environment with ``observe_graph=True``, not vectorised.

    Returns:
        ``x`` (n, N_FEATURES) float32, ``edge_index`` (2, e) int64, ``placement`` (n,), ``step`` and
        ``graph_id`` (1, 1); in environments of one unit per step also ``current_unit`` (1, 1),
        ``visited`` and ``start`` (n,); with ``observe_devices=True`` also ``unit_times`` (n, D),
        ``unit_bytes`` (n,), ``supported`` (n, D), ``edge_attr`` (e, 3), ``devices`` (1, D, 5),
        ``links`` (1, D, D, 2), ``room`` and ``memory_pool`` (1, D) and ``scale`` (1, 1). Values are
        those of the observation.

    Raises:
        MissingGraphError: The observation carries no graph.
    """
    if not set(GRAPH_KEYS) <= set(observation):
        raise MissingGraphError(
            "the observation carries no graph: make the environment with observe_graph=True"
        )
    units, edges = (np.asarray(observation[key]) > 0 for key in ("node_mask", "edge_mask"))
    values = {key: np.asarray(value) for key, value in observation.items()}
    arrays = {key: values[key][units] for key in NODE_KEYS if key in values}
    arrays |= {key: values[key][None] for key in STATE_KEYS if key in values}
    arrays["edge_index"] = edge_index(values)[:, edges]
    if "edge_attr" in values:
        arrays["edge_attr"] = values["edge_attr"][edges]
    return Data(
        num_nodes=int(units.sum()),
        **{key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in arrays.items()},
    )


def read_data(data: Data) -> GraphBatch:
    """Convert a graph of ``to_data``, or a ``Batch`` of them, to the input of encoders."""
    x: Any = data.x
    batch = data.batch if data.batch is not None else x.new_zeros(len(x), dtype=torch.int64)
    sizes = torch.bincount(batch, minlength=1)
    slots = torch.arange(int(sizes.max()), device=x.device)
    ends: Any = data.edge_index
    keys = [key for key in DEVICE_KEYS if key in data]
    tables = restore({"x": x.float(), **{key: data[key] for key in keys}})
    features = tables.pop("x")
    if tables:
        tables["unit_bytes"] = tables["unit_bytes"].double()
    return GraphBatch(
        x=features,
        edge_index=ends,
        batch=batch,
        ptr=torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]),
        node_mask=slots < sizes[:, None],
        action_mask=data.supported.bool() if "supported" in data else None,
        ids=tuple(range(len(sizes))),
        tables=DeviceTables(**tables) if tables else None,
    )
