"""The network: a graph encoder over units on devices, and a scorer of what each step sees."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from agents.sequential.decoding import WIDTH
from agents.sequential.features import FEATURES
from agents.sequential.steps import N_FEATURES


class Graph(NamedTuple):
    """A problem for the encoder.

    Attributes:
        x: (n_units, n_devices, n_features) float32.
        source: (n_edges,) units that make a tensor.
        target: (n_edges,) units that read it.
    """

    x: Tensor
    source: Tensor
    target: Tensor


class Network(nn.Module):
    """Preferences of units for devices; its weights know neither units nor devices.

    Every unit has a token for each device. In each round a token hears the mean of its unit's
    tokens, of those of the makers of its inputs, and of those of its readers, on its own device. A
    new network prefers nothing, so that the greedy choice decides alone.

    Args:
        hidden: Width of the encoder.
        rounds: Rounds of messages.
    """

    def __init__(self, hidden: int = 32, rounds: int = 2) -> None:
        super().__init__()
        self.settings = {"hidden": hidden, "rounds": rounds}
        self.embed = nn.Linear(len(FEATURES), hidden)
        self.rounds = nn.ModuleList(nn.Linear(4 * hidden, hidden) for _ in range(rounds))
        self.table = nn.Linear(hidden, WIDTH)
        self.step = nn.Linear(N_FEATURES, WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, 1, bias=False)
        self.sharpness = nn.Parameter(torch.ones(()))
        nn.init.zeros_(self.out.weight)

    def encode(self, graph: Graph) -> Tensor:
        """(n_units, n_devices, WIDTH) hidden values of the scorer."""
        h = torch.relu(self.embed(graph.x))
        for layer in self.rounds:
            heard = (
                h,
                h.mean(dim=1, keepdim=True).expand_as(h),
                average(h, graph.source, graph.target),
                average(h, graph.target, graph.source),
            )
            h = h + torch.relu(layer(torch.cat(heard, dim=-1)))
        table: Tensor = self.table(h)
        return table

    def score(self, table: Tensor, seen: Tensor, gap: Tensor) -> Tensor:
        """(k, n_units, n_devices) logits.

        Args:
            table: (n_units, n_devices, WIDTH) from ``encode``.
            seen: (k, n_units, n_devices, N_FEATURES) of ``Steps``.
            gap: (k, n_units, n_devices) of ``Steps``.
        """
        hidden = torch.relu(table + self.step(seen))
        logits: Tensor = self.sharpness * gap + self.out(hidden)[..., 0]
        return logits


def average(h: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """(n_units, ...) mean over the edges to each unit of the values at their other end."""
    total = torch.zeros_like(h).index_add_(0, target, h[source])
    count = torch.zeros(len(h)).index_add_(0, target, torch.ones(len(target)))
    return total / count.clamp(min=1.0)[:, None, None]
