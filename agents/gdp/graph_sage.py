"""GraphSAGE with the largest message of the neighbours (Hamilton et al. 2017; GO, 2.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agents.common.graphs import Neighbours

SPARSE_ON = "cpu"
"""Where PyTorch has maxima over the rows of a sparse matrix, twice as fast as over segments."""


class GraphSAGE(nn.Module):
    """Embeds units: h_N(v) = max over neighbours u of sigmoid(W h_u + b), h_v = f(h_v, h_N(v)).

    Args:
        width: Width of the features.
        hidden: Width of the embeddings.
        layers: Rounds of messages.
    """

    def __init__(self, width: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.enter = nn.Linear(width, hidden)
        self.messages = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.merges = nn.ModuleList(nn.Linear(2 * hidden, hidden) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))

    def forward(self, x: Tensor, neighbours: Neighbours) -> Tensor:
        """(n, hidden) embeddings.

        Args:
            x: (n, width) features.
            neighbours: Producers and consumers of each unit.
        """
        h = self.enter(x).relu()
        for message, merge, norm in zip(self.messages, self.merges, self.norms, strict=True):
            largest = take_largest(message(h).sigmoid(), neighbours)
            h = norm(h + merge(torch.cat([h, largest], dim=1)).relu())
        return h


def take_largest(sent: Tensor, neighbours: Neighbours) -> Tensor:
    """(n, hidden) maximum of the positive (n, hidden) messages of all neighbours, 0 without any."""
    if sent.device.type == SPARSE_ON:
        return torch.sparse.mm(neighbours.matrix, sent, "amax")
    received = sent.index_select(0, neighbours.nodes)
    return torch.segment_reduce(received, "max", offsets=neighbours.ptr, unsafe=True, initial=0.0)
