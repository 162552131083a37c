"""Observations as graphs: padded rows become one batch in which equal graphs appear once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from agents.common.pyg import InstanceNorm, degree, to_dense_batch
from agents.common.same_graphs import DEVICE_KEYS, SameGraphs
from placement_gym.base.errors import UserError
from placement_gym.envs.observation import FEATURES

TensorDict = Mapping[str, Tensor]
COST = FEATURES["cost"]
MIN_COST = 1e-3
"""Added to times before their logarithm, in mean times."""
GRAPH_KEYS = ("x", "edge_index", "edge_mask", "node_mask")


Key = TypeVar("Key")
Value = TypeVar("Value")
MAX_ENTRIES = 8


class Recent(dict[Key, Value]):
    """A dict that keeps its latest entries only."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > MAX_ENTRIES:
            del self[next(iter(self))]


class MissingGraphError(UserError):
    """Neither the observation nor the policy's table holds the graph."""


class Edges(NamedTuple):
    """Edges with the weights of a graph convolution.

    Attributes:
        ends: (2, e) source and target nodes.
        weight: (e,) 1 / sqrt(out-degree * in-degree), with a self-loop at each node counted.
    """

    ends: Tensor
    weight: Tensor

    @classmethod
    def of(cls, ends: Tensor, n: int) -> Edges:
        """The edges with their weights among n nodes."""
        source, target = ends
        out, into = degree(source, n) + 1.0, degree(target, n) + 1.0
        return cls(ends, (out[source] * into[target]).rsqrt())


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Producers and consumers of all nodes: those of node i are ``nodes[ptr[i]:ptr[i + 1]]``.

    Attributes:
        nodes: (at most 2 e,).
        ptr: (n + 1,).
    """

    nodes: Tensor
    ptr: Tensor

    @classmethod
    def of(cls, ends: Tensor, n: int) -> Neighbours:
        """The distinct neighbours of n nodes along (2, e) edges, in ascending order."""
        near, node = torch.cat([ends, ends.flip(0)], dim=1)
        pairs = torch.unique(node * n + near)
        counts = torch.bincount(pairs // n, minlength=n)
        return cls(pairs % n, torch.cat([counts.new_zeros(1), counts.cumsum(0)]))

    @cached_property
    def matrix(self) -> Tensor:
        """(n, n) ones where nodes are neighbours, sparse by rows."""
        n = len(self.ptr) - 1
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            ones = torch.ones(len(self.nodes), device=self.nodes.device)
            return torch.sparse_csr_tensor(
                self.ptr, self.nodes, ones, (n, n), check_invariants=True
            )


@dataclass(frozen=True, eq=False)
class DeviceTables:
    """Costs and limits of ``observe_devices`` for some graphs.

    See ``placement_gym.envs.device_table``.

    Attributes:
        devices: (G, D, 5) limits and times of the devices.
        links: (G, D, D, 2) times of transfers.
        unit_ms: (n, D) times of units, in mean times.
        unit_bytes: (n,) float64 shares of the model's bytes.
        edge_attr: (e, 3) transfers of edges.
        memory_pool: (G, D) int64, a number from 1 for devices that share memory, else 0.
    """

    devices: Tensor
    links: Tensor
    unit_ms: Tensor
    unit_bytes: Tensor
    edge_attr: Tensor
    memory_pool: Tensor

    @property
    def limits(self) -> Tensor:
        """(G, D) float64 shares of the model's bytes that fit, infinite without a limit."""
        share, limited = self.devices[..., 0].double(), self.devices[..., 1] > 0
        return share.where(limited, torch.inf)


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Graphs without padding, in PyTorch Geometric's layout of one batch.

    Attributes:
        x: (n, N_FEATURES) float32.
        edge_index: (2, e).
        batch: (n,) graph of each node.
        ptr: (G + 1,) where each graph's nodes begin.
        node_mask: (G, N) bool, False for padding.
        action_mask: (n, D) bool, the devices that support each unit; None if unknown.
        ids: (G,) ``graph_id`` of each graph.
        tables: Limits, times and links; None if they are not observed.
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    ptr: Tensor
    node_mask: Tensor
    action_mask: Tensor | None
    ids: tuple[int, ...]
    tables: DeviceTables | None = None

    @property
    def device_tables(self) -> DeviceTables:
        """Limits, times and links.

        Raises:
            UserError: They are not observed.
        """
        if self.tables is None:
            raise UserError(
                "the policy sees devices, and its graphs do not hold them: make the "
                "environment with observe_devices=True, or give policy_kwargs={'graphs': "
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
        """(n, N_FEATURES) as ``scaled``, but costs are the logarithm of times in mean times.

        All devices have one scale then, so that it shows which is faster.
        """
        together, costs = self.scaled.clone(), self.x[:, COST]
        together[:, COST] = torch.where(costs > 0, (costs + MIN_COST).log(), 0.0)
        return together

    @cached_property
    def allowed_slots(self) -> Tensor | None:
        """(G, N, D) bool, allowed devices of padded units; None if all are allowed or unknown."""
        if self.action_mask is None or bool(self.action_mask.all()):
            return None
        padded = self.action_mask.new_ones(*self.node_mask.shape, self.action_mask.shape[1])
        padded[self.node_mask] = self.action_mask
        return padded

    @property
    def sizes(self) -> list[int]:
        """Number of nodes of each graph."""
        sizes: list[int] = self.ptr.diff().tolist()
        return sizes

    def nodes_of(self, graph: int) -> slice:
        """The range of one graph's nodes."""
        return slice(int(self.ptr[graph]), int(self.ptr[graph + 1]))

    def edges_of(self, graph: int) -> Tensor:
        """(2, e) edges of one graph, its nodes numbered from 0."""
        mine = self.batch[self.edge_index[0]] == graph
        return self.edge_index[:, mine] - self.ptr[graph]

    def pad(self, values: Tensor) -> Tensor:
        """(G, N, F) from (n, F) values of the nodes, zero for padding."""
        return to_dense_batch(values, self.batch, 0.0, self.node_mask.shape[1])[0]

    @cached_property
    def neighbours(self) -> Neighbours:
        """Of each node, whichever way the edge."""
        return Neighbours.of(self.edge_index, len(self.x))

    @cached_property
    def along(self) -> Edges:
        """The edges from producers to consumers."""
        return Edges.of(self.edge_index, len(self.x))

    @cached_property
    def against(self) -> Edges:
        """The edges from consumers to producers."""
        return Edges(self.edge_index.flip(0), self.along.weight)

    @cached_property
    def undirected(self) -> Edges:
        """The edges in both directions."""
        both = torch.cat([self.edge_index, self.edge_index.flip(0)], dim=1)
        return Edges.of(both, len(self.x))


class Graphs:
    """Finds the graphs of observations.

    Args:
        table: ``graph_id`` -> padded arrays, as ``env.unwrapped.graph_table()`` returns them; None
            reads graphs from the observations.
    """

    def __init__(self, table: Mapping[int, Mapping[str, Any]] | None = None) -> None:
        self.table = table
        self.batches: Recent[tuple[int, ...], GraphBatch] = Recent()
        self.same = SameGraphs(table)

    def batch(self, observation: TensorDict) -> tuple[GraphBatch, Tensor]:
        """The distinct graphs of (B, ...) observations, and the (B,) graph of each row.

        Graphs are in ascending order of ``graph_id``.

        Raises:
            MissingGraphError: Neither the table nor the observation holds the graph.
            UserError: The observation of a graph has changed, as ``VecNormalize`` does.
        """
        ids, row_graph = torch.unique(observation["graph_id"].flatten(), return_inverse=True)
        key = tuple(ids.long().tolist())
        first = find_first_rows(row_graph, len(ids))
        self.same.check(observation, key, first)
        if self.table is None:
            return make_batch(take_rows(observation, first), key), row_graph
        if key not in self.batches:
            self.batches[key] = make_batch(self.stack_table(key, row_graph.device), key)
        return self.batches[key], row_graph

    def stack_table(self, ids: tuple[int, ...], device: torch.device) -> dict[str, Tensor]:
        """Stack the table's arrays of these graphs."""
        table = self.table or {}
        unknown = sorted(set(ids) - set(table))
        if unknown:
            raise MissingGraphError(
                f"no graph with graph_id {unknown}: give the policy the graphs of all its "
                "environments, policy_kwargs={'graphs': env.unwrapped.graph_table()}"
            )
        return {
            key: torch.as_tensor(np.stack([table[i][key] for i in ids]), device=device)
            for key in table[ids[0]]
        }


def find_first_rows(row_graph: Tensor, n_graphs: int) -> Tensor:
    """(n_graphs,) the first row of each graph."""
    rows = torch.arange(len(row_graph), device=row_graph.device).flip(0)
    return rows.new_empty(n_graphs).scatter_(0, row_graph.flip(0), rows)


def take_rows(observation: TensorDict, rows: Tensor) -> dict[str, Tensor]:
    """(G, ...) graph arrays, from (G,) rows, one of each graph.

    Where devices are observed, the support of each unit is among them.
    """
    if "x" not in observation:
        raise MissingGraphError(
            "the observation carries no graph: make the environment with observe_graph=True, or "
            "pass policy_kwargs={'graphs': env.unwrapped.graph_table()}"
        )
    known = [key for key in DEVICE_KEYS if key in observation]
    arrays = {key: observation[key][rows] for key in (*GRAPH_KEYS, *known)}
    if "memory_pool" in observation:
        arrays["memory_pool"] = observation["memory_pool"][rows]
    if "supported" in observation:
        arrays["action_mask"] = observation["supported"][rows]
    return arrays


def make_batch(padded: TensorDict, ids: tuple[int, ...]) -> GraphBatch:
    """Make one batch of (G, ...) padded graphs.

    Args:
        padded: ``x`` (G, N, F), ``edge_index`` (G, 2, E), ``edge_mask`` (G, E), ``node_mask``
            (G, N); optionally ``action_mask`` (G, N, D), and ``DEVICE_KEYS``.
        ids: (G,) ``graph_id`` of each graph.
    """
    mask, edge_mask = padded["node_mask"].bool(), padded["edge_mask"].bool()
    n_graphs, n_slots = mask.shape
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
