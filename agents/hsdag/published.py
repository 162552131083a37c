"""The networks of the published code where they differ from the paper's text; see ``CodeNetworks``.

Written from the formulas of hping666/HSDAG (``model.py``, ``layer.py``, ``config.py``), as read in
a public copy.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.common.encoder import make_dense, select_columns
from agents.common.graphs import GraphBatch
from agents.common.pyg import GCNConv, scatter
from agents.hsdag.networks import Networks
from agents.hsdag.presets import HSDAGOptions


class CodeNetworks(Networks):
    """``Networks`` as in the code, by whose names their parts are called here.

    An embedding has two halves: that of ``gnn1`` scores the edges, and that of ``gnn2`` is pooled.

    Deviation: levels after the first go by the scores of the first; the code computes embeddings
    of the pooled graph again.
    """

    def __init__(self, options: HSDAGOptions, n_devices: int, critic: bool) -> None:
        super().__init__(options, n_devices, critic)
        hidden, width = options.hidden, len(select_columns(options.features))
        # two convolutions before edges are scored, and one of its own for what is pooled
        self.encoder = CodeEncoder(options)
        # layers before and after pooling, each with a residual connection and LayerNorm
        self.deepsets_pre, self.deepsets_post = ResidualLinear(hidden), ResidualLinear(hidden)
        # the pooled embedding has the width of the features, and then the classifier follows
        self.placer = nn.Sequential(
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, width),
            nn.ReLU(),
            nn.Linear(width, hidden),
            nn.ReLU(),
            nn.Linear(hidden, n_devices),
        )

    def shift_embeddings(self, z: Tensor, shift: Tensor) -> Tensor:
        """See ``Networks``; each half is normalised by itself."""
        halves = (z + shift).reshape(len(z), 2, -1)
        return functional.layer_norm(halves, halves.shape[2:]).flatten(1)

    def score_edges(self, z: Tensor, edges: Tensor) -> Tensor:
        """See ``Networks``."""
        return super().score_edges(z[:, : z.shape[1] // 2], edges)

    def pool_groups(self, z: Tensor, group: Tensor, inner: Tensor) -> Tensor:
        """(n_groups, hidden) sums, times the mean score of inner edges and the number of these.

        Each edge counts twice, as the code has it in both directions; a group without is not gated.
        """
        n_groups = int(group.max()) + 1
        members = self.deepsets_pre(z[:, z.shape[1] // 2 :])
        pooled = self.deepsets_post(scatter(members, group, dim_size=n_groups))
        owner = group[inner[0]]
        gate = 2.0 * scatter(self.score_edges(z, inner).sigmoid(), owner, dim_size=n_groups)
        count = torch.bincount(owner, minlength=n_groups)
        features: Tensor = pooled * torch.where(count > 0, gate, 1.0)[:, None]
        return features

    def spread(self, pooled: Tensor) -> Tensor:
        """See ``Networks``: Z' is added to both halves."""
        return pooled.repeat(1, 2)

    def compute_values(self, z: Tensor, state: Tensor) -> Tensor:
        """See ``Networks``."""
        return super().compute_values(z[:, z.shape[1] // 2 :], state)


class CodeEncoder(nn.Module):
    """``input_trans``, then ``gnn1`` and ``gnn2`` beside it."""

    columns: Tensor

    def __init__(self, options: HSDAGOptions) -> None:
        super().__init__()
        columns, hidden = select_columns(options.features), options.hidden
        self.register_buffer("columns", torch.tensor(columns), persistent=False)
        self.dropout = options.dropout
        self.input_trans = nn.ModuleList(
            [make_dense(len(columns), hidden), make_dense(hidden, hidden)]
        )
        self.gnn1 = ResidualGCN(hidden, options.layers, options.dropout)
        self.gnn2 = ResidualGCN(hidden, 1, options.dropout)

    def forward(self, graphs: GraphBatch, noisy: bool = False) -> Tensor:
        """(n, 2 hidden) embeddings of nodes, to score edges and to pool."""
        h = graphs.jointly_scaled[:, self.columns]
        for layer in self.input_trans:
            h = functional.dropout(layer(h), self.dropout, training=noisy)
        ends = graphs.undirected.ends
        return torch.cat([self.gnn1(h, ends, noisy), self.gnn2(h, ends, noisy)], dim=1)


class ResidualGCN(nn.Module):
    """Graph convolutions with one residual connection and LayerNorm around all of them."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GCNConv(width, width) for _ in range(layers))
        self.norm, self.dropout = nn.LayerNorm(width), dropout

    def forward(self, x: Tensor, ends: Tensor, noisy: bool) -> Tensor:
        """(n, width) from (n, width)."""
        h = x
        for layer in self.layers:
            h = functional.dropout(layer(h, ends).relu(), self.dropout, training=noisy)
        features: Tensor = self.norm(x + h)
        return features


class ResidualLinear(nn.Module):
    """A linear layer with a residual connection and LayerNorm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """(n, width) from (n, width)."""
        features: Tensor = self.norm(x + self.linear(x))
        return features
