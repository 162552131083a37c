"""Stages two and three of GO: priority and fusion, each given the earlier decisions (2.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from agents.common import GraphBatch, UnitCategorical
from agents.gdp.networks import (
    DEVICE_COLUMNS,
    UNIT_DEVICE_COLUMNS,
    GOOptions,
    SegmentAttention,
    compute_unit_device_columns,
    describe_each_device,
)
from placement_gym.base import IntArray, UserError
from placement_gym.problem import DECISIONS, FUSION, LEVELS, PRIORITY

CUT_COLUMNS, EDGE_COLUMNS = 2, 3
BIT_VALUES = 2
"""Values of a bit of fusion."""
Choose = Callable[[UnitCategorical], Tensor]
"""Returns (B, ...) choices from the distribution of a stage."""
LaterStages = Callable[[Tensor, Choose], list[UnitCategorical]]
"""Returns the distributions of the stages after the placement, given (B, N) devices."""


@dataclass(frozen=True, eq=False)
class StagedDistribution:
    """A ``DeviceDistribution`` of all decisions, stage by stage."""

    devices: UnitCategorical
    later: LaterStages
    sizes: Sequence[int]

    def get_actions(self, deterministic: bool = False) -> Tensor:
        parts = [self.devices.get_actions(deterministic)]

        def choose(stage: UnitCategorical) -> Tensor:
            parts.append(stage.get_actions(deterministic))
            return parts[-1]

        self.later(parts[0], choose)
        return torch.cat(parts, dim=1)

    def conditioned_on(self, actions: Tensor) -> StagedLikelihood:
        parts = torch.split(actions.long(), list(self.sizes), dim=1)
        decisions: Iterator[Tensor] = iter(parts[1:])
        later = self.later(parts[0], lambda _: next(decisions))
        return StagedLikelihood((self.devices, *later), self.sizes)

    def restricted_to(self, allowed: Tensor) -> StagedDistribution:
        return replace(self, devices=self.devices.restricted_to(allowed))


@dataclass(frozen=True, eq=False)
class StagedLikelihood:
    """The likelihood of all decisions, each stage given the ones before."""

    stages: Sequence[UnitCategorical]
    sizes: Sequence[int]

    def unit_log_prob(self, actions: Tensor) -> Tensor:
        """(B, width) log-probability of each decision, 0 where nothing is decided."""
        parts = zip(self.stages, torch.split(actions, list(self.sizes), dim=1), strict=True)
        return torch.cat([stage.unit_log_prob(part) for stage, part in parts], dim=1)

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.unit_log_prob(actions).sum(dim=1)

    def entropy(self) -> Tensor:
        return torch.stack([stage.entropy() for stage in self.stages]).sum(dim=0)


class DecisionStages(nn.Module):
    """Priority and fusion for (B,) placements of one graph.

    Recurrent attention (GO, 2.4): the decisions of a stage are added to its input, and one layer of
    attention, shared by all stages, turns the normalised sum into the input of the next stage.
    """

    def __init__(self, decisions: Sequence[str], n_devices: int, options: GOOptions) -> None:
        super().__init__()
        hidden, devices = options.hidden, options.devices
        self.between = SegmentAttention(options, 1)
        self.norm = nn.LayerNorm(hidden)
        self.placed = PlacementEmbedding(n_devices, devices, hidden)
        self.levels = nn.Linear(hidden, LEVELS) if PRIORITY in decisions else None
        self.bits = EdgeHead(hidden, devices) if FUSION in decisions else None
        both = self.levels is not None and self.bits is not None
        self.chosen_level = nn.Embedding(LEVELS, hidden) if both else None

    def forward(
        self, h: Tensor, context: Tensor, graphs: GraphBatch, devices: Tensor, choose: Choose
    ) -> list[UnitCategorical]:
        """The distributions of levels and of bits, as far as they are decided.

        Args:
            h: (n, hidden) input of the first stage.
            context: (1, hidden) embedding of the graph.
            graphs: The graph; several are a ``UserError``.
            devices: (B, n) devices of each placement.
            choose: Returns the choices of a stage.
        """
        if len(graphs.ids) != 1:
            raise UserError("priority and fusion are learned on one problem at a time")
        # edges between devices cannot be fused: their bits are not decided
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
        read: Tensor = self.between(self.norm(h), context)
        return read


class PlacementEmbedding(nn.Module):
    """Embeds the device of each unit, and the number of its edges to other devices."""

    def __init__(self, n_devices: int, devices: bool, hidden: int) -> None:
        super().__init__()
        width = UNIT_DEVICE_COLUMNS + DEVICE_COLUMNS
        self.of_device = nn.Linear(width, hidden) if devices else nn.Embedding(n_devices, hidden)
        self.of_cut = nn.Linear(CUT_COLUMNS, hidden)

    def forward(self, devices: Tensor, cut: Tensor, graphs: GraphBatch) -> Tensor:
        """(B, n, hidden) from (B, n) devices and (B, e) bool, the edges between devices."""
        counts = [
            cut.new_zeros(devices.shape, dtype=torch.float32).index_add_(1, end, cut.float())
            for end in graphs.edge_index
        ]
        embedded: Tensor = self.of_cut(torch.stack(counts, dim=2).log1p())
        if isinstance(self.of_device, nn.Embedding):
            return embedded + self.of_device(devices)
        each = describe_each_device(graphs).expand(devices.shape[1], -1, -1)
        table = self.of_device(torch.cat([compute_unit_device_columns(graphs), each], dim=2))
        units = torch.arange(devices.shape[1], device=devices.device)
        return embedded + table[units, devices]


class EdgeHead(nn.Module):
    """Scores edges by their ends; deviation: a bit for each edge, not a priority of fusing."""

    def __init__(self, hidden: int, devices: bool) -> None:
        super().__init__()
        self.of_producer = nn.Linear(hidden, hidden)
        self.of_consumer = nn.Linear(hidden, hidden)
        self.of_edge = nn.Linear(EDGE_COLUMNS, hidden) if devices else None
        self.score = nn.Linear(hidden, 1)

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        """(B, e, 2) logits of leaving an edge and of fusing it."""
        producers, consumers = graphs.edge_index
        read = self.of_producer(h)[:, producers] + self.of_consumer(h)[:, consumers]
        if self.of_edge is not None:
            read = read + self.of_edge(graphs.device_tables.edge_attr)
        fused = self.score(read.relu())
        return torch.cat([torch.zeros_like(fused), fused], dim=2)


def read_parts(choices: IntArray, n_units: int) -> dict[str, int]:
    """Number of entries of each decision in an action with (width,) choices; see ``ActionLayout``.

    Raises:
        UserError: Entries after the units' are neither levels nor bits.
    """
    further = choices[n_units:]
    n_levels = n_units * bool(len(further) >= n_units and (further[:n_units] == LEVELS).all())
    if (further[n_levels:] != BIT_VALUES).any():
        raise UserError(
            "actions hold more than devices, levels of priority and bits of fusion: use "
            "DevicePlacement-v0 or DevicePlacementSim-v0"
        )
    counts = n_units, n_levels, len(further) - n_levels
    return {name: count for name, count in zip(DECISIONS, counts, strict=True) if count}
