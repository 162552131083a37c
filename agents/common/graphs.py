"""A batch of graphs, as encoders read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from agents.common.pyg import InstanceNorm, degree, to_dense_batch
from placement_gym.base.errors import UserError
from placement_gym.envs.observation import FEATURES

TensorDict = Mapping[str, Tensor]
COST = FEATURES["cost"]
MIN_COST = 1e-3
"""Added to times before their logarithm, in mean times: ours, so that free operators stay within
about seven of the others."""
Key = TypeVar("Key")
Value = TypeVar("Value")
MAX_ENTRIES = 8
"""Batches of graphs in a cache: ours, as many sets of graphs as a rollout alternates between."""


class Recent(dict[Key, Value]):
    """A dict of the latest entries."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > MAX_ENTRIES:
            del self[next(iter(self))]


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
        out_degree, into_degree = degree(source, n) + 1.0, degree(target, n) + 1.0
        return cls(ends, (out_degree[source] * into_degree[target]).rsqrt())


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
        memory_pool: (G, D) number of the pool of each device, 0 if it shares none.
    """

    devices: Tensor
    links: Tensor
    unit_ms: Tensor
    unit_bytes: Tensor
    edge_attr: Tensor
    memory_pool: Tensor


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Graphs without padding, in PyTorch Geometric's layout of one batch.

    Attributes:
        x: (n, N_FEATURES) float32.
        edge_index: (2, e).
        batch: (n,) graph of each node.
        ptr: (G + 1,) index of each graph's first node.
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
        """(n, N_FEATURES) as ``scaled``, but costs are the logarithm of times in mean times.

        All devices have one scale then, so that it shows which is faster.
        """
        columns, costs = self.scaled.clone(), self.x[:, COST]
        # Not standardised one by one, as other features are: the difference of two devices' times
        # is what a placement depends on.
        columns[:, COST] = torch.where(costs > 0, (costs + MIN_COST).log(), 0.0)
        return columns

    @cached_property
    def allowed_slots(self) -> Tensor | None:
        """(G, N, D) bool, allowed devices of padded units; None if all are allowed or unknown."""
        if self.action_mask is None or bool(self.action_mask.all()):
            return None
        allowed = self.action_mask.new_ones(*self.node_mask.shape, self.action_mask.shape[1])
        allowed[self.node_mask] = self.action_mask
        return allowed

    @cached_property
    def latest_producer(self) -> Tensor:
        """(n,) the last of each node's producers before it; itself if there is none."""
        source, target = self.edge_index
        # Edges against the order exist where units of a cyclic quotient are numbered by their first
        # operator; a leader must come before its followers.
        is_forward = source < target
        nodes = torch.arange(len(self.x), device=source.device)
        latest = torch.full_like(nodes, -1)
        latest.scatter_reduce_(0, target[is_forward], source[is_forward], "amax")
        return torch.where(latest < 0, nodes, latest)

    @cached_property
    def leader_slots(self) -> Tensor:
        """(G, N) ``latest_producer`` of padded units; padding leads itself."""
        slots = torch.arange(self.node_mask.shape[1], device=self.x.device)
        leader = slots.repeat(len(self.node_mask), 1)
        leader[self.node_mask] = self.latest_producer - self.ptr[self.batch]
        return leader

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
        in_graph = self.batch[self.edge_index[0]] == graph
        return self.edge_index[:, in_graph] - self.ptr[graph]

    def pad(self, values: Tensor) -> Tensor:
        """(G, N, F) from (n, F) values of the nodes, zero for padding."""
        return to_dense_batch(values, self.batch, 0.0, self.node_mask.shape[1])[0]

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
        ends = torch.cat([self.edge_index, self.edge_index.flip(0)], dim=1)
        return Edges.of(ends, len(self.x))
