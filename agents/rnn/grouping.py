"""The grouper of the hierarchical placer, and placements together with their groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from agents.common.distribution import FORBIDDEN, UnitCategorical
from agents.common.graphs import GraphBatch
from agents.rnn.sequence import Sequence

Placed = Callable[[Tensor], Sequence]
"""The choice of the groups' devices, for (B, N) groups."""


class Grouper(nn.Module):
    """Draws the group of each unit (Mirhoseini et al. 2018, section 3).

    Args:
        width: Of what is known of a unit.
        n_groups: Groups there are at most.
        hidden: Of its one hidden layer.
    """

    def __init__(self, width: int, n_groups: int, hidden: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, n_groups)
        )

    def forward(self, units: Tensor, mask: Tensor, row: Tensor) -> UnitCategorical:
        """The groups of (S, N, width) units with (S, N) masks, for rows that share them."""
        return UnitCategorical(self.layers(units), mask, row=row)


def described(x: Tensor, graphs: GraphBatch, row: Tensor, group: Tensor, n_groups: int) -> Tensor:
    """(B, n_groups, width) of each group: summed features, and edges to and from each; as asinh.

    Args:
        x: (G, N, F) features of padded units, zero for padding.
        graphs: G of them.
        row: (B,) graph of each row.
        group: (B, N) of each unit.
        n_groups: How many there are.
    """
    index = group[..., None].expand(-1, -1, x.shape[2])
    summed = x.new_zeros(len(row), n_groups, x.shape[2]).scatter_add(1, index, x[row])
    edges = x.new_zeros(len(row), n_groups * n_groups)
    for graph in range(len(graphs.ids)):
        mine = (row == graph).nonzero()[:, 0]
        source, target = graphs.edges_of(graph)
        pair = group[mine][:, source] * n_groups + group[mine][:, target]
        edges[mine] = edges[mine].scatter_add(1, pair, torch.ones_like(pair, dtype=x.dtype))
    sent = edges.view(len(row), n_groups, n_groups)
    return torch.cat([summed, sent, sent.transpose(1, 2)], dim=2).asinh()


class Memory:
    """With which groups each placement of a roll-out was sampled.

    A placement that is sampled again is given the groups of its first time. Both are draws from the
    same groups given that placement, so its likelihood stays that of what was sampled.
    """

    def __init__(self) -> None:
        self.groups: dict[tuple[int, bytes], Tensor] = {}

    def keep(self, graph: Tensor, devices: Tensor, groups: Tensor) -> None:
        """Remember (B, N) groups of (B, N) devices on graphs with (B,) identities."""
        for key, group in zip(keys_of(graph, devices), groups, strict=True):
            self.groups.setdefault(key, group.to(torch.int16))

    def recall(self, graph: Tensor, devices: Tensor, otherwise: Tensor) -> Tensor:
        """(B, N) groups; of placements that were not sampled, those of ``otherwise``."""
        known = [
            self.groups.get(key, group)
            for key, group in zip(keys_of(graph, devices), otherwise, strict=True)
        ]
        return torch.stack([group.long() for group in known])


def keys_of(graph: Tensor, devices: Tensor) -> list[tuple[int, bytes]]:
    rows = devices.to(torch.uint8).cpu().numpy()
    return [(int(i), row.tobytes()) for i, row in zip(graph.tolist(), rows, strict=True)]


@dataclass(frozen=True, eq=False)
class Grouped:
    """Groups are drawn, then their devices one after another.

    Attributes:
        grouper: Distribution of the groups.
        placed: See ``Placed``.
        memory: Which groups sampled placements had.
        graph: (B,) identity of each row's graph.
        mask: (B, N) bool, which units are no padding.
        allowed: (B, N, D) bool; None allows all.
    """

    grouper: UnitCategorical
    placed: Placed
    memory: Memory
    graph: Tensor
    mask: Tensor
    allowed: Tensor | None = None

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, N) devices, 0 for padding."""
        groups = self.grouper.get_actions(deterministic)
        devices = self.sequence(groups).get_actions(deterministic).gather(1, groups) * self.mask
        if not deterministic:
            self.memory.keep(self.graph, devices, groups)
        return devices

    def given(self, actions: Tensor) -> Joint:
        """How likely (B, N) devices are together with the groups that they were sampled with."""
        groups = self.memory.recall(self.graph, actions, self.grouper.mode())
        sequence = self.sequence(groups)
        of_groups = torch.zeros_like(sequence.weight, dtype=torch.int64)
        of_groups.scatter_reduce_(1, groups, actions.long() * self.mask, "amax")
        return Joint(self.grouper, groups, sequence.given(of_groups), of_groups)

    def sequence(self, groups: Tensor) -> Sequence:
        """The choice of the devices of (B, N) groups."""
        sequence = self.placed(groups)
        taken = torch.zeros_like(sequence.weight, dtype=torch.int64)
        taken.scatter_add_(1, groups, self.mask.long())
        sequence = replace(sequence, weight=taken > 0)
        if self.allowed is None:
            return sequence
        forbidden = (~self.allowed & self.mask[..., None]).long()
        index = groups[..., None].expand_as(forbidden)
        count = forbidden.new_zeros(*taken.shape, forbidden.shape[2])
        return sequence.without(count.scatter_add_(1, index, forbidden) == 0)

    def without(self, allowed: Tensor) -> Grouped:
        """The choice among (B, N, D) bool alone; a group goes where all of its units may."""
        both = allowed if self.allowed is None else allowed & self.allowed
        return replace(self, allowed=both)


@dataclass(frozen=True, eq=False)
class Joint:
    """How likely groups and devices are together.

    Attributes:
        grouper: Distribution of the groups.
        groups: (B, N) of each unit.
        devices: Distribution of the groups' devices.
        of_groups: (B, n_groups) their devices.
    """

    grouper: UnitCategorical
    groups: Tensor
    devices: UnitCategorical
    of_groups: Tensor

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) of both."""
        return self.grouper.log_prob(self.groups) + self.devices.log_prob(self.of_groups)

    def entropy(self) -> Tensor:
        """(B,) of both."""
        return self.grouper.entropy() + self.devices.entropy()

    def unit_log_prob(self, actions: Tensor) -> Tensor:
        """(B, N) of each unit's device, given its group."""
        index = self.groups[..., None].expand(-1, -1, self.devices.log_probs.shape[2])
        of_units = self.devices.log_probs.gather(1, index)
        return of_units.gather(2, actions.long()[..., None])[..., 0]

    def permits(self, actions: Tensor) -> bool:
        """Whether every unit's group may go there."""
        return bool((self.unit_log_prob(actions) > FORBIDDEN / 2).all())
