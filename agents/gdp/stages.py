"""Stages two and three of GO: priority and fusion, each given the decisions before (2.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from agents.common import GraphBatch, UnitCategorical
from agents.gdp.networks import (
    DEVICE_COLUMNS,
    UNIT_DEVICE_COLUMNS,
    SegmentAttention,
    compute_unit_device_columns,
    describe_each_device,
)
from placement_gym.base import UserError
from placement_gym.problem import DECISIONS, FUSION, LEVELS, PRIORITY

CUT_COLUMNS, EDGE_COLUMNS = 2, 3
BIT_VALUES = 2
"""Values of a bit of fusion."""
Choose = Callable[[UnitCategorical], Tensor]
"""Returns the (B, ...) choices in the distribution of a stage."""
LaterStages = Callable[[Tensor, Choose], list[UnitCategorical]]
"""Returns the distribution of each stage after the placement, given (B, N) devices and choices."""


@dataclass(frozen=True, eq=False)
class StagedDistribution:
    """The distribution of all decisions."""

    devices: UnitCategorical
    later: LaterStages
    sizes: Sequence[int]

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, width) sampled decisions; or the most likely ones, stage by stage."""
        parts = [self.devices.get_actions(deterministic)]

        def choose(stage: UnitCategorical) -> Tensor:
            parts.append(stage.get_actions(deterministic))
            return parts[-1]

        self.later(parts[0], choose)
        return torch.cat(parts, dim=1)

    def conditioned_on(self, actions: Tensor) -> StagedLikelihood:
        """The likelihood of (B, width) decisions, each stage given the ones before."""
        parts = torch.split(actions.long(), list(self.sizes), dim=1)
        decisions: Iterator[Tensor] = iter(parts[1:])
        later = self.later(parts[0], lambda _: next(decisions))
        return StagedLikelihood((self.devices, *later), self.sizes)

    def restricted_to(self, allowed: Tensor) -> StagedDistribution:
        """The distribution with only the devices that a (B, N, D) bool mask allows."""
        return replace(self, devices=self.devices.restricted_to(allowed))


@dataclass(frozen=True, eq=False)
class StagedLikelihood:
    """The likelihood of all decisions."""

    stages: Sequence[UnitCategorical]
    sizes: Sequence[int]

    def unit_log_prob(self, actions: Tensor) -> Tensor:
        """(B, width) log-probability of each decision, zero where nothing is decided."""
        parts = torch.split(actions, list(self.sizes), dim=1)
        log_probs = []
        for stage, part in zip(self.stages, parts, strict=True):
            each = stage.unit_log_prob(part)
            log_probs.append(each if stage.weight is None else each * stage.weight)
        return torch.cat(log_probs, dim=1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) log-probability of (B, width) decisions."""
        return self.unit_log_prob(actions).sum(dim=1)

    def entropy(self) -> Tensor:
        """(B,) entropies of the stages, each given the one before, added up."""
        return torch.stack([stage.entropy() for stage in self.stages]).sum(dim=0)


class DecisionStages(nn.Module):
    """Priority and fusion for (B,) placements of one graph.

    Recurrent attention (GO, 2.4): the decisions of a stage are added to its input, and a layer of
    attention, the same between all stages, turns the normed sum into the input of the next stage.

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
        between: SegmentAttention,
    ) -> None:
        super().__init__()
        self.between = between
        self.norm = nn.LayerNorm(hidden)
        self.placed = PlacementEmbedding(n_devices, devices, hidden)
        self.levels = nn.Linear(hidden, LEVELS) if PRIORITY in decisions else None
        self.bits = EdgeHead(hidden, devices) if FUSION in decisions else None
        both = self.levels is not None and self.bits is not None
        self.chosen_level = nn.Embedding(LEVELS, hidden) if both else None

    def forward(
        self, h: Tensor, context: Tensor, graphs: GraphBatch, devices: Tensor, choose: Choose
    ) -> list[UnitCategorical]:
        """The distributions of levels and of bits, those that are decided.

        Args:
            h: (n, hidden) input of the first stage.
            context: (1, hidden) embedding of the graph.
            graphs: The graph.
            devices: (B, n) of each placement.
            choose: Returns the (B, ...) choices of a stage.

        Raises:
            UserError: There are several graphs.
        """
        if len(graphs.ids) != 1:
            raise UserError("priority and fusion are learned on one problem at a time")
        # an edge between two devices cannot be fused: its bit is not decided
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
        """(B, n, hidden) input of the next stage."""
        read: Tensor = self.between(self.norm(h), context)
        return read


class PlacementEmbedding(nn.Module):
    """Embeds the device of each unit, and the number of its edges to other devices.

    Args:
        n_devices: Number of devices.
        devices: Whether the device is described by times, limits and links, not by its number.
        hidden: Width of embeddings.
    """

    def __init__(self, n_devices: int, devices: bool, hidden: int) -> None:
        super().__init__()
        width = UNIT_DEVICE_COLUMNS + DEVICE_COLUMNS
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
        table = self.of_device(torch.cat([compute_unit_device_columns(graphs), each], dim=2))
        units = torch.arange(devices.shape[1], device=devices.device)
        return embedded + table[units, devices]


class EdgeHead(nn.Module):
    """Scores edges by their ends.

    Deviation: a bit for each edge, where the paper has priorities of fusing.
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


class ActionParts(NamedTuple):
    """The parts of an action, in their order; see ``placement_gym.problem.ActionLayout``."""

    units: int  # entries that are devices, padding included
    levels: int  # entries that are levels
    edges: int  # entries that are bits
    devices: int  # number of devices

    @property
    def counts(self) -> list[int]:
        """Entries of each part."""
        return [self.units, self.levels, self.edges]

    @property
    def decisions(self) -> tuple[str, ...]:
        """Those of ``DECISIONS`` that have entries."""
        return tuple(name for name, count in zip(DECISIONS, self.counts, strict=True) if count > 0)


def read_parts(
    observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> ActionParts | None:
    """Read the parts of actions that place all units at once; None if they are something else."""
    choices = getattr(action_space, "nvec", np.zeros(0))
    if choices.ndim != 1 or not len(choices):
        return None
    # Padding belongs to the units: the observation alone shows how many entries are theirs.
    units = len(choices)
    if isinstance(observation_space, spaces.Dict) and "node_mask" in observation_space.spaces:
        (units,) = observation_space["node_mask"].shape or (0,)
    further = choices[units:]
    levels = units * bool(len(further) >= units and (further[:units] == LEVELS).all())
    is_uniform = (choices[:units] == choices[0]).all() and (further[levels:] == BIT_VALUES).all()
    if not 0 < units <= len(choices) or not is_uniform:
        return None
    return ActionParts(units, levels, len(further) - levels, int(choices[0]))
