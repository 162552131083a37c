"""Observations as graphs: padded rows become one batch in which equal graphs appear once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn import InstanceNorm
from torch_geometric.utils import degree, to_dense_batch

from placement_gym.errors import UserError

TensorDict = Mapping[str, Tensor]
GRAPH_KEYS = ("x", "edge_index", "edge_mask", "node_mask")


Key = TypeVar("Key")
Value = TypeVar("Value")
MOST_RECENT = 8


class Recent(dict[Key, Value]):
    """Keeps the latest few."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > MOST_RECENT:
            del self[next(iter(self))]


class MissingGraphError(UserError):
    """An observation without the graph that it is about."""


class Edges(NamedTuple):
    """Along which messages are sent.

    Attributes:
        ends: (2, e) from and to.
        weight: (e,) one over the root of out-degree times in-degree, a loop at each node counted.
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
class GraphBatch:
    """Graphs without padding, in PyTorch Geometric's layout of one batch.

    Attributes:
        x: (n, N_FEATURES) float32.
        edge_index: (2, e).
        batch: (n,) graph of each node.
        ptr: (G + 1,) where each graph's nodes begin.
        node_mask: (G, N) bool, the padded places of the nodes.
        action_mask: (n, D) bool, where units may go; None where that is not known.
        ids: (G,) their ``graph_id``.
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    ptr: Tensor
    node_mask: Tensor
    action_mask: Tensor | None
    ids: tuple[int, ...]

    @cached_property
    def scaled(self) -> Tensor:
        """(n, N_FEATURES) ``x`` with mean 0 and deviation 1 over the nodes of each graph."""
        scaled: Tensor = InstanceNorm(self.x.shape[1])(self.x, self.batch)
        return scaled

    @cached_property
    def allowed_slots(self) -> Tensor | None:
        """(G, N, D) bool, where padded units may go; None where nothing is forbidden or known."""
        if self.action_mask is None or bool(self.action_mask.all()):
            return None
        padded = self.action_mask.new_ones(*self.node_mask.shape, self.action_mask.shape[1])
        padded[self.node_mask] = self.action_mask
        return padded

    def nodes_of(self, graph: int) -> slice:
        """Where the nodes of one graph are."""
        return slice(int(self.ptr[graph]), int(self.ptr[graph + 1]))

    def edges_of(self, graph: int) -> Tensor:
        """(2, e) the edges of one graph between its own nodes, numbered from 0."""
        mine = self.batch[self.edge_index[0]] == graph
        return self.edge_index[:, mine] - self.ptr[graph]

    def padded(self, values: Tensor) -> Tensor:
        """(G, N, F) of (n, F) values of the nodes, zero for padding."""
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
        both = torch.cat([self.edge_index, self.edge_index.flip(0)], dim=1)
        return Edges.of(both, len(self.x))


class Graphs:
    """Finds the graphs that observations are about.

    Args:
        table: ``graph_id`` -> padded arrays, as ``env.unwrapped.graph_table()`` gives them; None
            takes them from the observations.
    """

    def __init__(self, table: Mapping[int, Mapping[str, Any]] | None = None) -> None:
        self.table = table
        self.batches: Recent[tuple[int, ...], GraphBatch] = Recent()

    def batch(self, observation: TensorDict) -> tuple[GraphBatch, Tensor]:
        """The distinct graphs of (B, ...) observations, and (B,) which of them each row is about.

        The graphs ascend by ``graph_id``.

        Raises:
            MissingGraphError: Neither table nor observation holds a graph.
        """
        ids, row_graph = torch.unique(observation["graph_id"].flatten(), return_inverse=True)
        key = tuple(ids.long().tolist())
        if self.table is None:
            return batch_of(first_rows(observation, row_graph, len(ids)), key), row_graph
        if key not in self.batches:
            self.batches[key] = batch_of(self.stacked(key, row_graph.device), key)
        return self.batches[key], row_graph

    def stacked(self, ids: tuple[int, ...], device: torch.device) -> dict[str, Tensor]:
        """The table's arrays of these graphs, side by side."""
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


def first_rows(observation: TensorDict, row_graph: Tensor, n_graphs: int) -> dict[str, Tensor]:
    """(n_graphs, ...) the graph's arrays of one row for each graph."""
    if "x" not in observation:
        raise MissingGraphError(
            "the observation carries no graph: make the environment with observe_graph=True, or "
            "pass policy_kwargs={'graphs': env.unwrapped.graph_table()}"
        )
    rows = torch.arange(len(row_graph), device=row_graph.device).flip(0)
    first = rows.new_empty(n_graphs).scatter_(0, row_graph.flip(0), rows)
    return {key: observation[key][first] for key in GRAPH_KEYS}


def batch_of(padded: TensorDict, ids: tuple[int, ...]) -> GraphBatch:
    """(G, ...) padded graphs as one batch, without a loop over them.

    Args:
        padded: ``x`` (G, N, F), ``edge_index`` (G, 2, E), ``edge_mask`` (G, E), ``node_mask``
            (G, N); optionally ``action_mask`` (G, N, D).
        ids: (G,) their ``graph_id``.
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
    )
