"""What turns embeddings of units into a logit for each device."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agents.common.graphs import MIN_COST, GraphBatch

UNIT_COLUMNS, PAIR_COLUMNS, DEVICE_COLUMNS = 2, 4, 7
MAX_EQUAL = 16
"""Equal devices that are told apart."""
LARGEST = 4.0
"""Of shares that grow without a bound."""


def present_devices(graphs: GraphBatch) -> Tensor:
    """(G, D) bool, False for padding, whose columns are all zero."""
    return graphs.device_tables.devices.bool().any(dim=2)


def describe_units(graphs: GraphBatch) -> Tensor:
    """(n, 2) of each unit: bytes in mean units, and the logarithm of its mean time."""
    known, present = graphs.device_tables, present_devices(graphs)[graphs.batch]
    counts = torch.bincount(graphs.batch)[graphs.batch]
    size = (known.unit_bytes * counts).clamp(max=100.0).log1p().float()
    mean = (known.unit_ms * present).sum(dim=1) / present.sum(dim=1)
    return torch.stack([size, (mean + MIN_COST).log()], dim=1)


def describe_pairs(graphs: GraphBatch) -> Tensor:
    """(n, D, 4) of each unit and device.

    Logarithm of the time; the same above that of the fastest device; bytes as a share of what the
    device holds; and what share of the model does not fit there.
    """
    known, padded = graphs.device_tables, ~present_devices(graphs)[graphs.batch]
    times = (known.unit_ms + MIN_COST).log()
    fastest = times.masked_fill(padded, torch.inf).amin(dim=1, keepdim=True)
    limit = known.devices[..., 0].clamp(min=1e-6)[graphs.batch]
    share = (known.unit_bytes[:, None].float() / limit).clamp(max=LARGEST)
    pairs = torch.stack([times, times - fastest, share, 1.0 - limit], dim=2)
    return pairs.masked_fill(padded[..., None], 0.0)


def describe_each_device(graphs: GraphBatch) -> Tensor:
    """(G, D, 7) of each device: see ``device_table.DEVICE_FEATURES``, and its mean links."""
    known = graphs.device_tables
    count = (present_devices(graphs).sum(dim=1) - 1).clamp(min=1)[:, None, None]
    links = known.links.sum(dim=2) / count
    return torch.cat([known.devices, links], dim=2).clamp(max=100.0).log1p()


def rank_among_equals(devices: Tensor) -> Tensor:
    """(G, D) how many devices before each have the same of (G, D, F) columns."""
    same = (devices[:, :, None] == devices[:, None]).all(dim=3)
    return same.tril(diagonal=-1).sum(dim=2).clamp(max=MAX_EQUAL - 1)


class DeviceHead(nn.Module):
    """Scores pairs of unit and device, whatever the number and the order of different devices.

    Equal ones are told apart by their rank among each other: units could not gather on one of them
    if all had the same logit.

    Args:
        width: Width of embeddings.
        hidden: Width of the layer between.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.of_unit = nn.Linear(width, hidden)
        self.of_device = nn.Linear(DEVICE_COLUMNS, hidden)
        self.of_pair = nn.Linear(PAIR_COLUMNS, hidden)
        self.of_rank = nn.Embedding(MAX_EQUAL, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        """(n, D) logits from (n, width) embeddings."""
        each = describe_each_device(graphs)
        device = (self.of_device(each) + self.of_rank(rank_among_equals(each)))[graphs.batch]
        pair = self.of_pair(describe_pairs(graphs))
        logits: Tensor = self.score((self.of_unit(h)[:, None] + device + pair).relu())
        return logits[..., 0]


class PlainHead(nn.Module):
    """A dense layer with an output for each device, as published.

    Args:
        width: Width of embeddings.
        n_devices: Number of devices.
    """

    def __init__(self, width: int, n_devices: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, n_devices)

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        """(n, D) logits from (n, width) embeddings."""
        logits: Tensor = self.dense(h)
        return logits
