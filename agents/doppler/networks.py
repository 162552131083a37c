"""The two policies: SEL chooses the next node, PLC its device."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agents.common import NNConv
from agents.doppler.schedule import NODE_FEATURES, TaskGraph, standardise

HEAD_WIDTH = 64
"""Width of the layer before a score (published code, ``scheduler/rl_agent.py``)."""
NEGATIVE_SLOPE = 0.1
"""Slope of LeakyReLU below zero (published code, ``scheduler/rl_agent.py``)."""


class Messages(nn.Module):
    """Embeddings of nodes: rounds of messages with tied weights (Gilmer et al. 2017)."""

    def __init__(self, hidden: int, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.enter = nn.Linear(len(NODE_FEATURES), hidden)
        edge = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, hidden * hidden))
        self.convolution = NNConv(hidden, hidden, edge, aggr="add", root_weight=False)
        self.remember = nn.GRUCell(hidden, hidden)

    def forward(self, graph: TaskGraph) -> Tensor:
        h = self.enter(graph.x).relu()
        for _ in range(self.rounds):
            received = self.convolution(h, graph.edges, graph.edge_x).relu()
            h = self.remember(received, h)
        return nn.functional.leaky_relu(h, NEGATIVE_SLOPE)


class NodePolicy(nn.Module):
    """SEL: a logit for each node to be the next one among the candidates."""

    def __init__(self, hidden: int, rounds: int) -> None:
        super().__init__()
        self.messages = Messages(hidden, rounds)
        self.own = nn.Linear(len(NODE_FEATURES), hidden)
        self.head = make_head(hidden)
        start_orthogonally(self.own, self.head)

    def forward(self, graph: TaskGraph) -> Tensor:
        """(n,) logits."""
        h = self.messages(graph)
        along = [
            standardise(torch.sparse.mm(path, h), 0) for path in (graph.down_path, graph.up_path)
        ]
        own = nn.functional.leaky_relu(self.own(graph.x), NEGATIVE_SLOPE)
        logits: Tensor = self.head(torch.cat([own, h, *along], dim=1))[:, 0]
        return logits


class DevicePolicy(nn.Module):
    """PLC: a logit for each device of a node; weights fit any number of nodes and devices."""

    def __init__(self, hidden: int, rounds: int, n_features: int) -> None:
        super().__init__()
        self.messages = Messages(hidden, rounds)
        self.own = nn.Linear(len(NODE_FEATURES), hidden)
        self.device = nn.Linear(n_features, hidden)
        self.head = make_head(hidden)
        start_orthogonally(self.own, self.device, self.head)

    def forward(self, x: Tensor, h: Tensor, devices: Tensor, placed: Tensor) -> Tensor:
        """(..., D) logits.

        Args:
            x: (..., 5) features of the nodes.
            h: (..., hidden) embeddings of the nodes.
            devices: (..., D, F) features of the devices.
            placed: (..., D, hidden) sums of the embeddings of the nodes on each device.
        """
        rows = nn.functional.leaky_relu(self.device(standardise(devices, -2)), NEGATIVE_SLOPE)
        own = nn.functional.leaky_relu(self.own(x), NEGATIVE_SLOPE)
        each = (*rows.shape[:-1], h.shape[-1])
        parts = [rows, own[..., None, :].expand(each), h[..., None, :].expand(each)]
        logits: Tensor = self.head(torch.cat([*parts, standardise(placed, -2)], dim=-1))[..., 0]
        return logits


class DualPolicy(nn.Module):
    """Both policies, which share no weights."""

    def __init__(self, hidden: int, rounds: int, n_features: int) -> None:
        super().__init__()
        self.node = NodePolicy(hidden, rounds)
        self.device = DevicePolicy(hidden, rounds, n_features)


def make_head(hidden: int) -> nn.Sequential:
    """Make a network of four inputs of width ``hidden``, one hidden layer and one output."""
    return nn.Sequential(
        nn.Linear(4 * hidden, HEAD_WIDTH), nn.LeakyReLU(NEGATIVE_SLOPE), nn.Linear(HEAD_WIDTH, 1)
    )


def start_orthogonally(*modules: nn.Module) -> None:
    """Make weights of linear layers orthogonal, with gain 1, and biases zero."""
    for module in modules:
        for layer in module.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight)
                nn.init.zeros_(layer.bias)
