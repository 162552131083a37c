"""GraphSAGE with the largest message of the neighbours (Hamilton et al. 2017; GO, 2.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """(n, hidden) embeddings.

        Args:
            x: (n, width) features.
            edge_index: (2, e) producers and consumers, which are neighbours of each other.
        """
        h = self.enter(x).relu()
        for message, merge, norm in zip(self.messages, self.merges, self.norms, strict=True):
            largest = take_largest(message(h).sigmoid(), edge_index)
            h = norm(h + merge(torch.cat([h, largest], dim=1)).relu())
        return h


def take_largest(sent: Tensor, edge_index: Tensor) -> Tensor:
    """(n, hidden) maximum of the positive (n, hidden) messages of all neighbours, 0 without any."""
    result = torch.zeros_like(sent)
    for source, target in (edge_index, edge_index.flip(0)):
        index = target[:, None].expand(-1, sent.shape[1])
        result = result.scatter_reduce(0, index, sent[source], "amax")
    return result
