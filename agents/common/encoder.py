"""From node features to embeddings, independent of the graph's size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, GINConv

from agents.common.graphs import Edges, GraphBatch
from placement_gym.errors import UserError
from placement_gym.observation import FEATURES

CONVOLUTIONS = ("gcn", "gat", "gin")
HEADS = 4


class Encoder(nn.Module):
    """Two linear layers, then graph convolutions with residual connections (HSDAG, 2.4).

    Args:
        features: Blocks of ``placement_gym.observation.FEATURES`` that are read.
        hidden: Width of an embedding, divisible by four for ``"gat"``.
        layers: Graph convolutions; 0 encodes each node alone.
        conv: ``"gcn"``, ``"gat"`` or ``"gin"``.
        directed: Weights of their own for what comes from producers, from consumers and from the
            node itself; False makes the edges undirected and shares the weights.
        dropout: Share of hidden values that a noisy pass drops.

    Raises:
        ValueError: Unknown features or convolution.
    """

    columns: Tensor

    def __init__(
        self,
        features: Sequence[str] = tuple(FEATURES),
        hidden: int = 128,
        layers: int = 2,
        conv: str = "gcn",
        directed: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        columns = columns_of(features)
        self.register_buffer("columns", torch.tensor(columns), persistent=False)
        self.dropout = dropout
        self.enter = nn.ModuleList([dense(len(columns), hidden), dense(hidden, hidden)])
        self.convolutions = nn.ModuleList(
            Convolution(conv, hidden, directed) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))

    def forward(self, graphs: GraphBatch, noisy: bool = False) -> Tensor:
        """(n, hidden) embeddings of a batch of graphs; features are scaled within each.

        Args:
            graphs: ``x`` (n, N_FEATURES), ``edge_index`` (2, e), ``batch`` (n,).
            noisy: Whether hidden values are dropped.
        """
        h = graphs.scaled[:, self.columns]
        for layer in self.enter:
            h = functional.dropout(layer(h), self.dropout, training=noisy)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            h = norm(h + convolution(h, graphs).relu())
        return h


class Convolution(nn.Module):
    """One step of messages along the edges, and against them.

    Args:
        kind: One of ``CONVOLUTIONS``.
        width: Of what comes in and goes out.
        directed: See ``Encoder``.

    Raises:
        ValueError: Unknown kind.
    """

    def __init__(self, kind: str, width: int, directed: bool) -> None:
        super().__init__()
        if kind not in CONVOLUTIONS:
            raise UserError(f"conv must be one of {CONVOLUTIONS}, not {kind!r}")
        self.weighted = kind == "gcn"
        self.own = nn.Linear(width, width)
        self.along = messages(kind, width)
        self.against = messages(kind, width) if directed else None

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        """(n, width) of (n, width)."""
        if self.against is None:
            return self.own(h) + self.sent(self.along, h, graphs.undirected)
        from_producers = self.sent(self.along, h, graphs.along)
        return self.own(h) + from_producers + self.sent(self.against, h, graphs.against)

    def sent(self, layer: nn.Module, h: Tensor, edges: Edges) -> Tensor:
        sent: Tensor = layer(h, *edges) if self.weighted else layer(h, edges.ends)
        return sent


def messages(kind: str, width: int) -> nn.Module:
    """The layer that sums up what neighbours send."""
    if kind == "gcn":
        return GCNConv(width, width, normalize=False, bias=False)
    if kind == "gat":
        return GATConv(width, width // HEADS, HEADS, add_self_loops=False)
    return GINConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))


def dense(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.ReLU())


def columns_of(features: Sequence[str]) -> list[int]:
    """Columns of ``x`` that feature blocks take.

    Raises:
        ValueError: Unknown blocks, or none.
    """
    unknown = sorted(set(features) - set(FEATURES))
    if unknown or not features:
        raise UserError(f"features are some of {tuple(FEATURES)}, not {tuple(features)}")
    chosen = [FEATURES[name] for name in FEATURES if name in features]
    return [column for block in chosen for column in range(block.start, block.stop)]
