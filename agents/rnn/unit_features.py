"""Unit features of the RNN placers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from agents.common import pairs
from agents.common.encoder import select_columns
from agents.common.graphs import GraphBatch
from agents.common.pyg import scatter


class UnitFeatures(nn.Module):
    """Features of units, of their producers and of their consumers (Mirhoseini et al. 2017, 3.2).

    The paper identifies neighbours by node numbers, which ties weights to one graph; here a unit
    reads the mean features of its producers and of its consumers.

    Args:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        n_devices: Number of devices whose times, limits and transfers are seen, see
            ``agents.common.pairs``; 0 sees none.
    """

    columns: Tensor

    def __init__(self, features: Sequence[str], n_devices: int = 0) -> None:
        super().__init__()
        self.register_buffer("columns", torch.tensor(select_columns(features)), persistent=False)
        self.sees_devices = n_devices > 0
        self.width = 3 * (len(self.columns) + n_devices * len(pairs.FEATURES))

    def forward(self, graphs: GraphBatch) -> Tensor:
        """(G, N, width) features of padded units."""
        x = graphs.scaled[:, self.columns]
        if self.sees_devices:
            x = torch.cat([x, pairs.describe_pairs(graphs).flatten(1)], dim=1)
        sides = [
            scatter(x[source], target, dim_size=len(x), reduce="mean")
            for source, target in (graphs.edge_index, graphs.edge_index.flip(0))
        ]
        return graphs.pad(torch.cat([x, *sides], dim=1))
