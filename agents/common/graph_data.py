"""Observations as graphs: one batch in which equal graphs appear once, or PyTorch Geometric's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agents.common.graphs import DeviceTables, GraphBatch, Recent, TensorDict
from agents.common.pyg import Data
from placement_gym.base.errors import UserError
from placement_gym.envs.device_table import LOGARITHMS, OBSERVED
from placement_gym.envs.observation import FEATURES, SCALED_BLOCKS, observe_features
from placement_gym.envs.scaling import (
    GRAPH_IDS,
    LOG_DIVISOR,
    edge_index,
    read_graph_id,
    read_indices,
)

GRAPH_KEYS = ("x", "edges", "edge_mask", "node_mask")
DEVICE_KEYS = ("devices", "links", "unit_times", "unit_bytes", "edge_attr", "memory_pool")
INDEX_KEYS = ("graph_id", "current_unit", "edges")
STATE_KEYS = (
    "step",
    "graph_id",
    "current_unit",
    "devices",
    "links",
    "room",
    "memory_pool",
    "scale",
)
"""Keys of an observation that are of the graph as a whole: they get a leading axis of one."""
NODE_KEYS = ("x", "placement", "visited", "start", "unit_times", "unit_bytes", "supported")
"""Keys with a row for each unit."""
TABLE_NAMES = {observed: name for name, observed in OBSERVED.items()}
"""Names of ``graph_table`` for arrays that observations have under others."""
NORM_TOLERANCE = 1e-4
"""Relative difference of two norms of the same array: ours, far above rounding to float32."""
INDEX_TOLERANCE = 1e-3
"""Largest distance of an index from an integer, for up to 10,000 units: ours, above rounding."""


class MissingGraphError(UserError):
    """Neither the observation nor the policy's table holds the graph."""


class Graphs:
    """Finds the graphs of observations.

    Args:
        table: ``graph_id`` -> padded arrays, as ``env.unwrapped.graph_table()`` returns them; None
            reads graphs from the observations.
    """

    def __init__(self, table: Mapping[int, Mapping[str, Any]] | None = None) -> None:
        self.table = table
        self.batches: Recent[tuple[int, ...], GraphBatch] = Recent()
        self.norms = {
            (graph_id, "x"): compute_norm(torch.as_tensor(observe_features(arrays["x"])))
            for graph_id, arrays in (table or {}).items()
        }

    def batch(self, observation: TensorDict) -> tuple[GraphBatch, Tensor]:
        """The distinct graphs of (B, ...) observations, and the (B,) graph of each row.

        Graphs are in ascending order of ``graph_id``.

        Raises:
            MissingGraphError: Neither the table nor the observation holds the graph.
            UserError: The observation of a graph has changed, as ``VecNormalize`` does.
        """
        ids, row_graph = torch.unique(read_graph_id(observation).flatten(), return_inverse=True)
        key = tuple(ids.tolist())
        first_rows = find_first_rows(row_graph, len(ids))
        self.check_unchanged(observation, key, first_rows)
        # Equal graphs of a batch are encoded once; without a table they come with the observations,
        # and are not cached.
        if self.table is None:
            return make_batch(take_rows(observation, first_rows), key), row_graph
        if key not in self.batches:
            self.batches[key] = make_batch(self.stack_table(key, row_graph.device), key)
        return self.batches[key], row_graph

    def stack_table(self, ids: tuple[int, ...], device: torch.device) -> dict[str, Tensor]:
        """Stack the table's arrays of these graphs."""
        table = self.table or {}
        unknown = sorted(set(ids) - set(table))
        if unknown:
            devices = "devices=True" if "unit_ms" in next(iter(table.values()), {}) else ""
            call = f"env.unwrapped.graph_table({devices})"
            raise MissingGraphError(
                f"no graph with graph_id {unknown}: add it by model.policy.add_graphs({call}), or "
                "make the agent with agents.make(name, env) for this environment; an algorithm of "
                "Stable-Baselines3 also takes the graphs of all its environments at once, "
                f"policy_kwargs={{'graphs': {{**{call}, ...}}}}"
            )
        return {
            key: torch.as_tensor(np.stack([table[i][key] for i in ids]), device=device)
            for key in table[ids[0]]
        }

    def check_unchanged(self, observation: TensorDict, ids: tuple[int, ...], rows: Tensor) -> None:
        """Raise if the arrays of a graph have changed, as by ``VecNormalize``.

        Policies cache what they compute of a graph under its ``graph_id``: a rollout and its update
        would use different graphs. The norms of arrays are compared.

        Args:
            observation: (B, ...) arrays.
            ids: (G,) ``graph_id`` of each graph.
            rows: (G,) one observation of each graph.

        Raises:
            UserError: A graph has changed, or what identifies something is no index.
        """
        n_slots = observation["node_mask"].shape[-1] if "node_mask" in observation else 1
        tolerance = INDEX_TOLERANCE * max(1.0, n_slots / 10_000)
        for key in INDEX_KEYS:
            indices = observation.get(key, torch.zeros(()))
            indices = indices * (GRAPH_IDS if key == "graph_id" else n_slots)
            if ((indices - indices.round()).abs() > tolerance).any():
                raise altered(key)
        for key in ("x", *DEVICE_KEYS):
            if key in observation:
                for graph_id, row in zip(ids, rows.tolist(), strict=True):
                    norm = compute_norm(observation[key][row])
                    first_norm = self.norms.setdefault((graph_id, key), norm)
                    if abs(norm - first_norm) > NORM_TOLERANCE * max(first_norm, norm):
                        raise altered(key)


def compute_norm(values: Tensor) -> float:
    """The sum of magnitudes, as a cheap checksum."""
    return float(torch.linalg.vector_norm(values.double(), 1))


def altered(key: str) -> UserError:
    """The error for an array that a wrapper changes."""
    return UserError(
        f"a wrapper changes {key!r} though policies cache graphs by graph_id: normalise "
        "rewards only, by VecNormalize(norm_obs=False); policies scale the features of graphs "
        "themselves"
    )


def find_first_rows(row_graph: Tensor, n_graphs: int) -> Tensor:
    """(n_graphs,) the first row of each graph."""
    # Flipped, since the last of several writes to one index stays: the first row of each graph.
    rows = torch.arange(len(row_graph), device=row_graph.device).flip(0)
    return rows.new_empty(n_graphs).scatter_(0, row_graph.flip(0), rows)


def take_rows(observation: TensorDict, rows: Tensor) -> dict[str, Tensor]:
    """(G, ...) graph arrays, from (G,) rows, one of each graph.

    Where devices are observed, the support of each unit is among them.
    """
    if "x" not in observation:
        raise MissingGraphError(
            "the observation carries no graph: make the environment with observe_graph=True, or "
            "give the policy its graphs, by policy_kwargs={'graphs': env.unwrapped.graph_table()} "
            "or, later, model.policy.add_graphs(env.unwrapped.graph_table())"
        )
    device_keys = [key for key in DEVICE_KEYS if key in observation]
    arrays = {key: observation[key][rows] for key in (*GRAPH_KEYS, *device_keys)}
    if "supported" in observation:
        arrays["action_mask"] = observation["supported"][rows]
    return {**restore(arrays), "edge_index": edge_index(arrays)}


def restore(observed: TensorDict) -> dict[str, Tensor]:
    """Arrays of graphs as ``graph_table`` has them, from those of observations."""
    arrays = {TABLE_NAMES.get(key, key): value for key, value in observed.items()}
    arrays["x"] = observed["x"].clone()
    for name in SCALED_BLOCKS:
        arrays["x"][..., FEATURES[name]] *= LOG_DIVISOR
    arrays["x"][..., FEATURES["cost"]] = arrays["x"][..., FEATURES["cost"]].expm1()
    for key, columns in LOGARITHMS.items() if "devices" in observed else ():
        name = TABLE_NAMES.get(key, key)
        arrays[name] = observed[key].clone()
        arrays[name][..., columns] = observed[key][..., columns].expm1()
    if "memory_pool" in observed:
        arrays["memory_pool"] = read_indices(
            observed["memory_pool"], observed["memory_pool"].shape[-1]
        )
    return arrays


def make_batch(padded: TensorDict, ids: tuple[int, ...]) -> GraphBatch:
    """Make one batch of (G, ...) padded graphs.

    Args:
        padded: ``x`` (G, N, F), ``edge_index`` (G, 2, E), ``edge_mask`` (G, E), ``node_mask``
            (G, N); optionally ``action_mask`` (G, N, D), and what ``graph_table`` has of devices.
        ids: (G,) ``graph_id`` of each graph.
    """
    mask, edge_mask = padded["node_mask"].bool(), padded["edge_mask"].bool()
    n_graphs, n_slots = mask.shape
    # Padding is dropped: the nodes of all graphs are numbered in one row, and edges follow.
    position = torch.cumsum(mask.flatten(), 0) - 1
    offset = n_slots * torch.arange(n_graphs, device=mask.device)[:, None, None]
    ends = (padded["edge_index"].long() + offset).transpose(0, 1)[:, edge_mask]
    sizes = mask.sum(dim=1)
    allowed = padded.get("action_mask")
    return GraphBatch(
        x=padded["x"][mask].float(),
        edge_index=position[ends],
        batch=torch.repeat_interleave(torch.arange(n_graphs, device=mask.device), sizes),
        ptr=torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]),
        node_mask=mask,
        action_mask=None if allowed is None else allowed[mask].bool(),
        ids=ids,
        tables=make_tables(padded, mask, edge_mask) if "unit_ms" in padded else None,
    )


def make_tables(padded: TensorDict, mask: Tensor, edge_mask: Tensor) -> DeviceTables:
    """The tables of (G, ...) padded graphs, without the padding of units and edges."""
    return DeviceTables(
        devices=padded["devices"].float(),
        links=padded["links"].float(),
        unit_ms=padded["unit_ms"][mask].float(),
        unit_bytes=padded["unit_bytes"][mask].double(),
        edge_attr=padded["edge_attr"][edge_mask].float(),
        memory_pool=padded["memory_pool"].long(),
    )


def to_data(observation: Mapping[str, Any]) -> Data:
    """One observation as a graph of PyTorch Geometric, without padding.

    Several become a batch by ``Batch.from_data_list([to_data(one) for one in observations])``.

    Args:
        observation: Of an environment with ``observe_graph=True``, not vectorised.

    Returns:
        ``x`` (n, N_FEATURES) float32, ``edge_index`` (2, e) int64, ``placement`` (n,),
        ``step`` and ``graph_id`` (1, 1); of one unit per step also ``current_unit`` (1, 1),
        ``visited`` and ``start`` (n,); with ``observe_devices=True`` also ``unit_times`` (n, D),
        ``unit_bytes`` (n,), ``supported`` (n, D), ``edge_attr`` (e, 3), ``devices`` (1, D, 5),
        ``links`` (1, D, D, 2), ``room`` and ``memory_pool`` (1, D) and ``scale`` (1, 1); all but
        ``edge_index`` as they are observed.

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
    """A graph, or a ``Batch`` of graphs, of PyTorch Geometric as what encoders read.

    Args:
        data: ``x`` and ``edge_index``, and what else ``to_data`` returns.
    """
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
