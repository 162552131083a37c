"""Stages two and three of GO: priority and fusion, each given what the stage before decided."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from agents.common.distribution import UnitCategorical
from agents.common.graphs import GraphBatch
from agents.gdp.heads import DEVICE_COLUMNS, PAIR_COLUMNS, describe_each_device, describe_pairs
from agents.gdp.joint import Choose
from agents.gdp.segments import Segments
from placement_gym.base.errors import UserError
from placement_gym.problem.decisions import FUSION, LEVELS, PRIORITY

CUT_COLUMNS, EDGE_COLUMNS = 2, 3


class Stages(nn.Module):
    """Priority and fusion for (B,) placements of one graph.

    What a stage decided is added to what it read, and a layer of attention, the same between all
    stages, turns the normed sum into what the next stage reads (recurrent attention; GO, 2.4).

    Args:
        decisions: ``PRIORITY``, ``FUSION`` or both, in that order.
        n_devices: Number of devices.
        devices: Whether times, limits and links of the devices are known.
        hidden: Width of embeddings.
        between: The layer of attention.
    """

    def __init__(
        self,
        decisions: Sequence[str],
        n_devices: int,
        devices: bool,
        hidden: int,
        between: Segments,
    ) -> None:
        super().__init__()
        self.between = between
        self.norm = nn.LayerNorm(hidden)
        self.placed = Placed(n_devices, devices, hidden)
        self.levels = nn.Linear(hidden, LEVELS) if PRIORITY in decisions else None
        self.bits = EdgeHead(hidden, devices) if FUSION in decisions else None
        both = self.levels is not None and self.bits is not None
        self.chosen_level = nn.Embedding(LEVELS, hidden) if both else None

    def forward(
        self, h: Tensor, context: Tensor, graphs: GraphBatch, devices: Tensor, choose: Choose
    ) -> list[UnitCategorical]:
        """The distributions of levels and of bits, those that are decided.

        Args:
            h: (n, hidden) what the placement was read from.
            context: (1, hidden) embedding of the graph.
            graphs: The graph.
            devices: (B, n) of each placement.
            choose: Returns the (B, ...) choices of a stage.

        Raises:
            UserError: There are several graphs.
        """
        if len(graphs.ids) != 1:
            raise UserError("priority and fusion are learned on one problem at a time")
        cut = devices[:, graphs.edge_index[0]] != devices[:, graphs.edge_index[1]]
        h = self.advance(h + self.placed(devices, cut, graphs), context[0])
        stages = []
        if self.levels is not None:
            stages.append(UnitCategorical(self.levels(h)))
            chosen = choose(stages[-1])
            if self.chosen_level is not None:
                h = self.advance(h + self.chosen_level(chosen), context[0])
        if self.bits is not None:
            stages.append(UnitCategorical(self.bits(h, graphs), weight=~cut))
            choose(stages[-1])
        return stages

    def advance(self, h: Tensor, context: Tensor) -> Tensor:
        """(B, n, hidden) what the next stage reads."""
        read: Tensor = self.between(self.norm(h), context)
        return read


class Placed(nn.Module):
    """Embeds the device of each unit, and how many of its edges lead to other devices.

    Args:
        n_devices: Number of devices.
        devices: Whether the device is described by times, limits and links, not by its number.
        hidden: Width of embeddings.
    """

    def __init__(self, n_devices: int, devices: bool, hidden: int) -> None:
        super().__init__()
        width = PAIR_COLUMNS + DEVICE_COLUMNS
        self.of_device = nn.Linear(width, hidden) if devices else nn.Embedding(n_devices, hidden)
        self.of_cut = nn.Linear(CUT_COLUMNS, hidden)

    def forward(self, devices: Tensor, cut: Tensor, graphs: GraphBatch) -> Tensor:
        """(B, n, hidden) from (B, n) devices and (B, e) bool, the edges that leave a device."""
        counts = [
            cut.new_zeros(devices.shape, dtype=torch.float32).index_add_(1, end, cut.float())
            for end in graphs.edge_index
        ]
        embedded: Tensor = self.of_cut(torch.stack(counts, dim=2).log1p())
        if isinstance(self.of_device, nn.Embedding):
            return embedded + self.of_device(devices)
        each = describe_each_device(graphs).expand(devices.shape[1], -1, -1)
        table = self.of_device(torch.cat([describe_pairs(graphs), each], dim=2))
        units = torch.arange(devices.shape[1], device=devices.device)
        return embedded + table[units, devices]


class EdgeHead(nn.Module):
    """Scores edges by their ends.

    Args:
        hidden: Width of embeddings.
        devices: Whether the transfers of edges are known.
    """

    def __init__(self, hidden: int, devices: bool) -> None:
        super().__init__()
        self.of_producer = nn.Linear(hidden, hidden)
        self.of_consumer = nn.Linear(hidden, hidden)
        self.of_edge = nn.Linear(EDGE_COLUMNS, hidden) if devices else None
        self.score = nn.Linear(hidden, 1)

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        """(B, e, 2) logits of an edge that stays and of one that is fused."""
        producers, consumers = graphs.edge_index
        read = self.of_producer(h)[:, producers] + self.of_consumer(h)[:, consumers]
        if self.of_edge is not None:
            read = read + self.of_edge(graphs.device_tables.edge_attr)
        fused = self.score(read.relu())
        return torch.cat([torch.zeros_like(fused), fused], dim=2)
