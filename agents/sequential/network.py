"""The network: a graph encoder over units on devices, and a scorer of what each step sees."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from agents.sequential import outlook
from agents.sequential.decoding import WIDTH
from agents.sequential.features import FEATURES
from agents.sequential.steps import DISPLACES, N_FEATURES, PLANNED

RARE = -3.0
"""Log odds that a move pays, before anything is learned."""


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
    tokens, of those of the makers of its inputs, of those of its readers, and of all units, on its
    own device. A new network prefers nothing, so that the greedy choice decides alone.

    Args:
        hidden: Width of the encoder.
        rounds: Rounds of messages.
    """

    def __init__(self, hidden: int = 32, rounds: int = 2) -> None:
        super().__init__()
        self.settings = {"hidden": hidden, "rounds": rounds}
        self.embed = nn.Linear(len(FEATURES), hidden)
        self.rounds = nn.ModuleList(nn.Linear(5 * hidden, hidden) for _ in range(rounds))
        self.table = nn.Linear(hidden, WIDTH)
        self.bias = nn.Linear(hidden + len(FEATURES), 1, bias=False)
        self.step = nn.Linear(N_FEATURES, WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, 1, bias=False)
        self.sharpness = nn.Parameter(torch.ones(()))
        self.direct = nn.Linear(N_FEATURES, 1, bias=False)
        self.move = nn.Linear(outlook.N_FEATURES, outlook.WIDTH)
        self.promise = nn.Linear(outlook.WIDTH, 1)
        for layer in (self.out, self.bias, self.direct, self.promise):
            nn.init.zeros_(layer.weight)
        nn.init.constant_(self.promise.bias, RARE)

    def encode(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """(n_units, n_devices) preferences, and (n_units, n_devices, WIDTH) hidden values."""
        h = self.embed_graph(graph)
        return self.prefer(h, graph), self.table(h)

    def prefer(self, h: Tensor, graph: Graph) -> Tensor:
        """(n_units, n_devices) preferences of the encoder alone, from its tokens."""
        bias: Tensor = self.bias(torch.cat([h, graph.x], dim=-1))[..., 0]
        return bias

    def embed_graph(self, graph: Graph) -> Tensor:
        """(n_units, n_devices, hidden) tokens after all messages."""
        h = torch.relu(self.embed(graph.x))
        for layer in self.rounds:
            heard = (
                h,
                h.mean(dim=1, keepdim=True).expand_as(h),
                average(h, graph.source, graph.target),
                average(h, graph.target, graph.source),
                h.mean(dim=0, keepdim=True).expand_as(h),
            )
            h = h + torch.relu(layer(torch.cat(heard, dim=-1)))
        return h

    def score(self, bias: Tensor, table: Tensor, seen: Tensor, gap: Tensor) -> Tensor:
        """(k, n_units, n_devices) logits.

        Args:
            bias: (n_units, n_devices) from ``encode``.
            table: (n_units, n_devices, WIDTH) from ``encode``.
            seen: (k, n_units, n_devices, N_FEATURES) of ``Steps``.
            gap: (k, n_units, n_devices) of ``Steps``.
        """
        hidden = torch.relu(table + self.step(seen))
        learned = self.out(hidden) + self.direct(seen)
        logits: Tensor = self.sharpness * gap + bias + learned[..., 0]
        return logits

    def promise_of(self, seen: Tensor) -> Tensor:
        """(k,) how promising moves are, in log odds, from (k, n_features) of ``outlook``."""
        promise: Tensor = self.promise(torch.relu(self.move(seen)))[:, 0]
        return promise

    def follow_plans(self, strength: float = 4.0, sharpness: float = 0.1) -> None:
        """Prefer what the plan says, and leave it room; a good place to begin a training.

        Args:
            strength: Of these preferences.
            sharpness: Of the greedy score; a low one, so that no label is nearly impossible and
                teaches nothing.
        """
        with torch.no_grad():
            self.sharpness.fill_(sharpness)
            self.direct.weight[0, PLANNED] = strength
            self.direct.weight[0, DISPLACES] = -strength


def average(h: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """(n_units, ...) mean over the edges to each unit of the values at their other end."""
    total = torch.zeros_like(h).index_add_(0, target, h[source])
    count = torch.zeros(len(h)).index_add_(0, target, torch.ones(len(target)))
    return total / count.clamp(min=1.0)[:, None, None]
