"""Observations as graphs of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from agents.common.graphs import GRAPH_KEYS, DeviceTables, GraphBatch, MissingGraphError
from agents.common.pyg import Data
from agents.common.same_graphs import DEVICE_KEYS

STATE_KEYS = (
    "step",
    "graph_id",
    "current_unit",
    "devices",
    "links",
    "room",
    "memory_pool",
    "scale_ms",
)
"""Keys of an observation that are of the graph as a whole: they get a leading axis of one."""
NODE_KEYS = ("x", "placement", "visited", "start_ms", "unit_ms", "unit_bytes", "supported")
"""Keys with a row for each unit."""
TABLE_KEYS = (*DEVICE_KEYS, "memory_pool", "supported")


def to_data(observation: Mapping[str, Any]) -> Data:
    """One observation as a graph of PyTorch Geometric, without padding.

    Several become a batch by ``Batch.from_data_list([to_data(one) for one in observations])``.

    Args:
        observation: Of an environment with ``observe_graph=True``, not vectorised.

    Returns:
        ``x`` (n, N_FEATURES) float32, ``edge_index`` (2, e) int64, ``placement`` (n,) int64,
        ``step`` and ``graph_id`` (1, 1); of one unit per step also ``current_unit`` (1, 1),
        ``visited`` and ``start_ms`` (n,); with ``observe_devices=True`` also ``unit_ms`` (n, D),
        ``unit_bytes`` (n,), ``supported`` (n, D), ``edge_attr`` (e, 3), ``devices`` (1, D, 5),
        ``links`` (1, D, D, 2), ``room`` and ``memory_pool`` (1, D) and ``scale_ms`` (1, 1).

    Raises:
        MissingGraphError: The observation carries no graph.
    """
    if not set(GRAPH_KEYS) <= set(observation):
        raise MissingGraphError(
            "the observation carries no graph: make the environment with observe_graph=True"
        )
    units, edges = (np.asarray(observation[key]) > 0 for key in ("node_mask", "edge_mask"))
    known = {key: np.asarray(value) for key, value in observation.items()}
    arrays = {key: known[key][units] for key in NODE_KEYS if key in known}
    arrays |= {key: known[key][None] for key in STATE_KEYS if key in known}
    arrays["edge_index"] = known["edge_index"][:, edges]
    if "edge_attr" in known:
        arrays["edge_attr"] = known["edge_attr"][edges]
    return Data(
        num_nodes=int(units.sum()),
        **{key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in arrays.items()},
    )


def read_data(data: Data) -> GraphBatch:
    """A graph, or a ``Batch`` of graphs, of PyTorch Geometric as what encoders read.

    Args:
        data: ``x`` and ``edge_index``, and what else ``to_data`` returns.
    """
    x: Any = data.x
    batch = data.batch if data.batch is not None else x.new_zeros(len(x), dtype=torch.int64)
    sizes = torch.bincount(batch, minlength=1)
    slots = torch.arange(int(sizes.max()), device=x.device)
    edge_index: Any = data.edge_index
    known = {key: data[key] for key in TABLE_KEYS if key in data}
    supported = known.pop("supported", None)
    if "unit_bytes" in known:
        known["unit_bytes"] = known["unit_bytes"].double()
    return GraphBatch(
        x=x.float(),
        edge_index=edge_index,
        batch=batch,
        ptr=torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]),
        node_mask=slots < sizes[:, None],
        action_mask=None if supported is None else supported.bool(),
        ids=tuple(range(len(sizes))),
        tables=DeviceTables(**known) if len(known) == len(TABLE_KEYS) - 1 else None,
    )
