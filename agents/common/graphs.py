"""Graphs of observations, found by their id and batched for encoders.

PyTorch Geometric is imported here alone, without its warning about ``torch.jit.script``, which
users of this package cannot act on.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from placement_gym.base import UserError
from placement_gym.envs import (
    FEATURES,
    GRAPH_IDS,
    LOG_DIVISOR,
    LOGARITHMS,
    OBSERVED,
    SCALED_BLOCKS,
    edge_index,
    observe_features,
    read_graph_id,
    read_indices,
)

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "`torch.jit.script` is", DeprecationWarning)
    from torch_geometric.data import Data as Data
    from torch_geometric.nn import GATConv as GATConv
    from torch_geometric.nn import GCNConv as GCNConv
    from torch_geometric.nn import GINConv as GINConv
    from torch_geometric.nn import InstanceNorm
    from torch_geometric.nn import NNConv as NNConv
    from torch_geometric.utils import degree as degree
    from torch_geometric.utils import scatter as scatter
    from torch_geometric.utils import to_dense_batch

TensorDict = Mapping[str, Tensor]
COST = FEATURES["cost"]
MIN_COST = 1e-3
"""Added to times, in mean times, before their logarithm. Hand-tuned: logarithms of free operators
stay within about seven of the others."""
GRAPH_KEYS = ("x", "edges", "edge_mask", "node_mask")
DEVICE_KEYS = ("devices", "links", "unit_times", "unit_bytes", "edge_attr", "memory_pool")
INDEX_KEYS = ("graph_id", "current_unit", "edges")
TABLE_NAMES = {observed: name for name, observed in OBSERVED.items()}
"""Name in ``graph_table`` of each array that observations rename."""
NORM_TOLERANCE = 1e-4
"""Maximum relative difference of two norms of one array. Hand-tuned: far above rounding."""
INDEX_TOLERANCE = 1e-3
"""Maximum distance of an index from an integer, for 10,000 units. Hand-tuned: above rounding."""
Key = TypeVar("Key")
Value = TypeVar("Value")
MAX_ENTRIES = 8
"""Batches of graphs in a cache. Hand-tuned: a rollout alternates between few sets of graphs."""


class LRUCache(dict[Key, Value]):
    """A dict of the latest ``MAX_ENTRIES`` entries."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > MAX_ENTRIES:
            del self[next(iter(self))]  # dicts keep insertion order: the oldest


@dataclass(frozen=True, eq=False)
class DeviceTables:
    """Costs and limits of devices for some graphs; see ``envs.device_table``."""

    devices: Tensor  # (G, D, 5) limits and times of the devices
    links: Tensor  # (G, D, D, 2) times of transfers
    unit_ms: Tensor  # (n, D) times of units, in mean times
    unit_bytes: Tensor  # (n,) float64 shares of the model's bytes
    edge_attr: Tensor  # (e, 3) transfers of edges
    memory_pool: Tensor  # (G, D) number of the pool of each device, 0 if it shares none


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Graphs without padding, in PyTorch Geometric's layout of one batch."""

    x: Tensor  # (n, N_FEATURES) float32
    edge_index: Tensor  # (2, e)
    batch: Tensor  # (n,) graph of each node
    ptr: Tensor  # (G + 1,) index of each graph's first node
    node_mask: Tensor  # (G, N) bool, False for padding
    action_mask: Tensor | None  # (n, D) bool, devices that support each unit; None if unknown
    ids: tuple[int, ...]  # (G,) ``graph_id`` of each graph
    tables: DeviceTables | None = None  # limits, times and links; None if they are not observed

    @property
    def device_tables(self) -> DeviceTables:
        """The tables; a ``UserError`` without any."""
        if self.tables is None:
            raise UserError(
                "the policy reads devices, and its graphs have none: make the "
                "environment with observe_devices=True, or pass policy_kwargs={'graphs': "
                "env.unwrapped.graph_table(devices=True)}"
            )
        return self.tables

    @cached_property
    def scaled(self) -> Tensor:
        """(n, N_FEATURES) ``x`` with mean 0 and deviation 1 over the nodes of each graph."""
        scaled: Tensor = InstanceNorm(self.x.shape[1])(self.x, self.batch)
        return scaled

    @cached_property
    def jointly_scaled(self) -> Tensor:
        """(n, N_FEATURES) like ``scaled``, but costs are the logarithm of times in mean times."""
        columns, costs = self.scaled.clone(), self.x[:, COST]
        # On one scale for all devices: a placement depends on the difference of their times, which
        # is lost if each is standardised by itself.
        columns[:, COST] = torch.where(costs > 0, (costs + MIN_COST).log(), 0.0)
        return columns

    @cached_property
    def allowed_slots(self) -> Tensor | None:
        """(G, N, D) bool, allowed devices of padded units; None if all are, or it is unknown."""
        if self.action_mask is None or bool(self.action_mask.all()):
            return None
        allowed = self.action_mask.new_ones(*self.node_mask.shape, self.action_mask.shape[1])
        allowed[self.node_mask] = self.action_mask
        return allowed

    def nodes_of(self, graph: int) -> slice:
        return slice(int(self.ptr[graph]), int(self.ptr[graph + 1]))

    def edges_of(self, graph: int) -> Tensor:
        """(2, e) edges of one graph, whose nodes are numbered from 0."""
        in_graph = self.batch[self.edge_index[0]] == graph
        return self.edge_index[:, in_graph] - self.ptr[graph]

    def pad(self, values: Tensor) -> Tensor:
        """(G, N, F) from (n, F) values of the nodes, zero for padding."""
        return to_dense_batch(values, self.batch, 0.0, self.node_mask.shape[1])[0]


class MissingGraphError(UserError):
    """Neither the observation nor the policy's table holds the graph."""


class Graphs:
    """Finds the graphs of observations.

    Args:
        table: Padded arrays by ``graph_id``, as ``env.unwrapped.graph_table()`` returns them; None
            reads graphs from the observations.
    """

    def __init__(self, table: Mapping[int, Mapping[str, Any]] | None = None) -> None:
        self.table = table
        self.batches: LRUCache[tuple[int, ...], GraphBatch] = LRUCache()
        self.norms = {
            (graph_id, "x"): compute_norm(torch.as_tensor(observe_features(arrays["x"])))
            for graph_id, arrays in (table or {}).items()
        }

    def batch(self, observation: TensorDict) -> tuple[GraphBatch, Tensor]:
        """The distinct graphs of (B, ...) observations, sorted by id; and (B,) each row's graph."""
        ids, row_graph = torch.unique(read_graph_id(observation).flatten(), return_inverse=True)
        key = tuple(ids.tolist())
        # The first row of each graph: of several writes to an index the last one stays.
        rows = torch.arange(len(row_graph), device=row_graph.device).flip(0)
        first_rows = rows.new_empty(len(ids)).scatter_(0, row_graph.flip(0), rows)
        self.check_unchanged(observation, key, first_rows)
        if self.table is None:
            return make_batch(take_rows(observation, first_rows), key), row_graph
        if key not in self.batches:
            self.batches[key] = make_batch(self.stack_table(key, row_graph.device), key)
        return self.batches[key], row_graph

    def stack_table(self, ids: tuple[int, ...], device: torch.device) -> dict[str, Tensor]:
        table = self.table or {}
        if unknown := sorted(set(ids) - set(table)):
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
        """Raise if a wrapper has changed arrays of a graph, as ``VecNormalize`` does.

        Policies cache by ``graph_id``, so a rollout and its update would use different graphs.
        Norms are compared, in one of the (B, ...) rows for each graph.
        """
        n_slots = observation["node_mask"].shape[-1] if "node_mask" in observation else 1
        tolerance = INDEX_TOLERANCE * max(1.0, n_slots / 10_000)
        for key in (key for key in INDEX_KEYS if key in observation):
            indices = observation[key] * (GRAPH_IDS if key == "graph_id" else n_slots)
            if ((indices - indices.round()).abs() > tolerance).any():
                raise altered(key)
        for key in (key for key in ("x", *DEVICE_KEYS) if key in observation):
            for graph_id, row in zip(ids, rows.tolist(), strict=True):
                norm = compute_norm(observation[key][row])
                first_norm = self.norms.setdefault((graph_id, key), norm)
                if abs(norm - first_norm) > NORM_TOLERANCE * max(first_norm, norm):
                    raise altered(key)


def compute_norm(values: Tensor) -> float:
    """The sum of magnitudes, a cheap checksum."""
    return float(torch.linalg.vector_norm(values.double(), 1))


def altered(key: str) -> UserError:
    return UserError(
        f"a wrapper changes {key!r} though policies cache graphs by graph_id: normalise "
        "rewards only, by VecNormalize(norm_obs=False); policies scale the features of graphs "
        "themselves"
    )


def take_rows(observation: TensorDict, rows: Tensor) -> dict[str, Tensor]:
    """(G, ...) arrays of graphs, as ``graph_table`` has them, from the (G,) first row of each."""
    if "x" not in observation:
        raise MissingGraphError(
            "the observation carries no graph: make the environment with observe_graph=True, or "
            "give the policy its graphs, by policy_kwargs={'graphs': env.unwrapped.graph_table()} "
            "or, later, model.policy.add_graphs(env.unwrapped.graph_table())"
        )
    keys = (*GRAPH_KEYS, *(key for key in DEVICE_KEYS if key in observation))
    arrays = {key: observation[key][rows] for key in keys}
    if "supported" in observation:
        arrays["action_mask"] = observation["supported"][rows]
    return {**restore(arrays), "edge_index": edge_index(arrays)}


def restore(observed: TensorDict) -> dict[str, Tensor]:
    """Undo the names, logarithms and scales of observed arrays, as ``graph_table`` has them."""
    arrays = {TABLE_NAMES.get(key, key): value.clone() for key, value in observed.items()}
    x = arrays["x"]
    for name in SCALED_BLOCKS:
        x[..., FEATURES[name]] *= LOG_DIVISOR
    x[..., COST] = x[..., COST].expm1()
    for key, columns in LOGARITHMS.items() if "devices" in observed else ():
        array = arrays[TABLE_NAMES.get(key, key)]
        array[..., columns] = array[..., columns].expm1()
    if "memory_pool" in observed:
        pool = observed["memory_pool"]
        arrays["memory_pool"] = read_indices(pool, pool.shape[-1])
    return arrays


def make_batch(padded: TensorDict, ids: tuple[int, ...]) -> GraphBatch:
    """Make one batch of (G, ...) padded arrays of ``graph_table`` and of their ids."""
    mask, edge_mask = padded["node_mask"].bool(), padded["edge_mask"].bool()
    n_graphs, n_slots = mask.shape
    # Without padding, the nodes of all graphs are numbered in one sequence, and edges follow.
    position = torch.cumsum(mask.flatten(), 0) - 1
    offset = n_slots * torch.arange(n_graphs, device=mask.device)[:, None, None]
    ends = (padded["edge_index"].long() + offset).transpose(0, 1)[:, edge_mask]
    sizes, allowed, tables = mask.sum(dim=1), padded.get("action_mask"), None
    if "unit_ms" in padded:
        tables = DeviceTables(
            devices=padded["devices"].float(),
            links=padded["links"].float(),
            unit_ms=padded["unit_ms"][mask].float(),
            unit_bytes=padded["unit_bytes"][mask].double(),
            edge_attr=padded["edge_attr"][edge_mask].float(),
            memory_pool=padded["memory_pool"].long(),
        )
    return GraphBatch(
        x=padded["x"][mask].float(),
        edge_index=position[ends],
        batch=torch.repeat_interleave(torch.arange(n_graphs, device=mask.device), sizes),
        ptr=torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]),
        node_mask=mask,
        action_mask=None if allowed is None else allowed[mask].bool(),
        ids=ids,
        tables=tables,
    )
