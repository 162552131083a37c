"""An encoder of node features for graphs of any size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.common.graphs import MAX_ENTRIES, GATConv, GCNConv, GINConv, GraphBatch, degree
from placement_gym.base import UserError, unknown_name
from placement_gym.envs import FEATURES

CONVOLUTIONS = ("gcn", "gat", "gin")
HEADS = 4
"""Attention heads of ``"gat"``. Hand-tuned."""
Conv = str | type[nn.Module]
"""One of ``CONVOLUTIONS``, or a class; see ``Encoder``."""


class Edges(NamedTuple):
    """Edges with the weights of a graph convolution."""

    ends: Tensor  # (2, e) source and target nodes
    weight: Tensor  # (e,) 1 / sqrt(out-degree * in-degree), with a self-loop at each node counted


@lru_cache(maxsize=MAX_ENTRIES)
def find_edges(graphs: GraphBatch, directed: bool) -> tuple[Edges, ...]:
    """The edges along which messages pass: one set per direction if directed, else one of both."""
    ends, back = graphs.edge_index, graphs.edge_index.flip(0)
    source, target = ends if directed else torch.cat([ends, back], dim=1)
    n = len(graphs.x)
    out_degree, into_degree = degree(source, n) + 1.0, degree(target, n) + 1.0
    weight = (out_degree[source] * into_degree[target]).rsqrt()
    first = Edges(torch.stack([source, target]), weight)
    return (first, Edges(back, weight)) if directed else (first,)


class Encoder(nn.Module):
    """Two linear layers, then graph convolutions with residual connections (HSDAG, 2.4).

    Args:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        hidden: Width of an embedding, divisible by four for ``"gat"``.
        layers: Number of graph convolutions; 0 ignores the edges.
        conv: ``"gcn"``, ``"gat"`` or ``"gin"``; or a class such as PyTorch Geometric's
            ``SAGEConv``, made as ``conv(in_channels, out_channels)`` and called as ``layer(x,
            edge_index)``.
        directed: Whether messages from producers and from consumers have separate weights; False
            makes the edges undirected.
        dropout: Share of hidden values that a noisy pass drops.
        further: Number of columns of each node beyond its features.

    Raises:
        ValueError: Unknown features or convolution.
    """

    columns: Tensor

    def __init__(
        self,
        features: Sequence[str] = tuple(FEATURES),
        hidden: int = 128,
        layers: int = 2,
        conv: Conv = "gcn",
        directed: bool = True,
        dropout: float = 0.0,
        further: int = 0,
    ) -> None:
        super().__init__()
        columns = select_columns(features)
        self.register_buffer("columns", torch.tensor(columns), persistent=False)
        self.dropout = dropout
        self.enter = nn.ModuleList(
            [make_dense(len(columns) + further, hidden), make_dense(hidden, hidden)]
        )
        self.convolutions = nn.ModuleList(
            Convolution(conv, hidden, directed) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))

    def forward(
        self, graphs: GraphBatch, noisy: bool = False, further: Tensor | None = None
    ) -> Tensor:
        """(n, hidden) embeddings of a batch of graphs.

        Args:
            graphs: The graphs; ``agents.pyg.read_data`` converts those of PyTorch Geometric.
            noisy: Whether dropout is applied.
            further: (n, further) columns beyond the features.
        """
        # Scaled within each graph, so weights transfer: latencies and sizes of models differ by
        # orders of magnitude.
        h = graphs.jointly_scaled[:, self.columns]
        if further is not None:
            h = torch.cat([h, further], dim=1)
        for layer in self.enter:
            h = functional.dropout(layer(h), self.dropout, training=noisy)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            # Residual, so deep encoders keep a unit's own features (oversmoothing).
            h = norm(h + convolution(h, graphs).relu())
        return h


class Convolution(nn.Module):
    """One round of messages along the edges and against them; see ``Encoder``."""

    def __init__(self, kind: Conv, width: int, directed: bool) -> None:
        super().__init__()
        self.weighted = kind == "gcn"
        self.own = nn.Linear(width, width)
        self.along = make_message_layer(kind, width)
        self.against = make_message_layer(kind, width) if directed else None

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        """(n, width) from (n, width)."""
        edges = find_edges(graphs, self.against is not None)
        if self.against is None:
            return self.own(h) + self.send(self.along, h, edges[0])
        # A producer and a consumer matter for different reasons: what arrives, and where it goes.
        from_producers = self.send(self.along, h, edges[0])
        return self.own(h) + from_producers + self.send(self.against, h, edges[1])

    def send(self, layer: nn.Module, h: Tensor, edges: Edges) -> Tensor:
        messages: Tensor = layer(h, *edges) if self.weighted else layer(h, edges.ends)
        return messages


def make_message_layer(kind: Conv, width: int) -> nn.Module:
    """Make the layer that aggregates the messages of neighbours."""
    if isinstance(kind, type):
        return make_layer_of_class(kind, width)
    if kind not in CONVOLUTIONS:
        raise UserError(f"{unknown_name('conv', kind, CONVOLUTIONS)}; or pass a class as SAGEConv")
    if kind == "gcn":
        return GCNConv(width, width, normalize=False, bias=False)
    if kind == "gat":
        if width % HEADS:
            raise UserError(f"hidden must be a multiple of {HEADS} with conv='gat', not {width}")
        return GATConv(width, width // HEADS, HEADS, add_self_loops=False)
    # GIN aggregates by sum, which needs a perceptron to separate multisets (Xu et al. 2019).
    return GINConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))


def make_layer_of_class(conv: type[nn.Module], width: int) -> nn.Module:
    """Make a layer of a class, and try it on two nodes and an edge.

    A class with another interface would otherwise fail in the middle of a rollout.
    """
    x = torch.zeros(2, width)
    try:
        layer = conv(width, width).eval()
        shape = tuple(layer(x, torch.tensor([[0], [1]])).shape)
        if shape != x.shape:
            raise ValueError(f"it returned {shape} for {tuple(x.shape)}")
    except Exception as error:
        raise UserError(
            f"conv={getattr(conv, '__name__', conv)} cannot pass messages here: a class is made as "
            "conv(in_channels, out_channels) and called as layer(x, edge_index), and returns "
            f"(n, out_channels), as SAGEConv does; here: {type(error).__name__}: {error}"
        ) from error
    return layer.train()


def make_dense(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.ReLU())


def make_perceptron(width: int, hidden: int, out: int) -> nn.Sequential:
    """Linear, LayerNorm, ReLU, linear."""
    return nn.Sequential(*make_dense(width, hidden), nn.Linear(hidden, out))


def select_columns(features: Sequence[str]) -> list[int]:
    """Columns of ``x`` in the feature blocks."""
    unknown = sorted(set(features) - set(FEATURES))
    if unknown or not features:
        raise UserError(f"features must be one or more of {tuple(FEATURES)}, not {tuple(features)}")
    blocks = [FEATURES[name] for name in FEATURES if name in features]
    return [column for block in blocks for column in range(block.start, block.stop)]
