"""Unit features of the RNN placers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.utils import scatter

from agents.common.encoder import select_columns
from agents.common.graphs import GraphBatch


class UnitFeatures(nn.Module):
    """Features of units, of their producers and of their consumers (Mirhoseini et al. 2017, 3.2).

    The paper identifies neighbours by node numbers, which ties weights to one graph; here a unit
    reads the mean features of its producers and of its consumers.

    Args:
        features: Names of blocks in ``placement_gym.observation.FEATURES``.
    """

    columns: Tensor

    def __init__(self, features: Sequence[str]) -> None:
        super().__init__()
        self.register_buffer("columns", torch.tensor(select_columns(features)), persistent=False)
        self.width = 3 * len(self.columns)

    def forward(self, graphs: GraphBatch) -> Tensor:
        """(G, N, width) features of padded units."""
        x = graphs.scaled[:, self.columns]
        sides = [
            scatter(x[source], target, dim_size=len(x), reduce="mean")
            for source, target in (graphs.edge_index, graphs.edge_index.flip(0))
        ]
        return graphs.pad(torch.cat([x, *sides], dim=1))
