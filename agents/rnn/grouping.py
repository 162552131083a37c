"""The grouper of the hierarchical placer, and placements together with their groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from agents.common.distribution import UnitCategorical
from agents.common.graphs import GraphBatch
from agents.rnn.sequence import Sequence

VOTES = 31
Placed = Callable[[Tensor, Tensor], Sequence]
"""The choice of the groups' devices, for what ``in_order`` gives."""


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


def in_order(groups: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """(B, N) place of each unit's group in the order of their first units, and (B, M) which are.

    Args:
        groups: (B, N) numbers of any size.
        mask: (B, N) bool, which units are no padding.
    """
    n_groups, n = int(groups.max()) + 1, groups.shape[1]
    unit = torch.arange(n, device=groups.device).expand_as(groups).where(mask, n)
    first = torch.full((len(groups), n_groups), n, device=groups.device)
    first.scatter_reduce_(1, groups, unit, "amin")
    taken = first < n
    rank = first.argsort(dim=1).argsort(dim=1)
    most = int(taken.sum(dim=1).max())
    return rank.gather(1, groups) * mask, taken.gather(1, first.argsort(dim=1))[:, :most]


def described(
    units: Tensor, graphs: GraphBatch, row: Tensor, place: Tensor, taken: Tensor, width: int
) -> Tensor:
    """(B, M, F + 2 * width) of each group: summed features, and edges to and from each; as asinh.

    Args:
        units: (G, N, F) what is known of padded units, zero for padding.
        graphs: G of them.
        row: (B,) graph of each row.
        place: (B, N) of each unit's group.
        taken: (B, M) bool, which groups there are.
        width: Groups that there are at most.
    """
    n_rows, n_places = taken.shape
    index = place[..., None].expand(-1, -1, units.shape[2])
    summed = units.new_zeros(n_rows, n_places, units.shape[2]).scatter_add(1, index, units[row])
    edges = units.new_zeros(n_rows, width * width)
    for graph in range(len(graphs.ids)):
        mine = (row == graph).nonzero()[:, 0]
        source, target = graphs.edges_of(graph)
        pair = place[mine][:, source] * width + place[mine][:, target]
        edges[mine] = edges[mine].scatter_add(1, pair, torch.ones_like(pair, dtype=units.dtype))
    sent = edges.view(n_rows, width, width)
    both = [sent[:, :n_places], sent.transpose(1, 2)[:, :n_places]]
    return torch.cat([summed, *both], dim=2).asinh()


class Memory:
    """With which groups each placement of a roll-out was sampled.

    A placement that is sampled again is given the groups of its first time. Both are draws from the
    same groups given that placement, so its likelihood stays that of what was sampled; gradients
    only vary more the more placements of a roll-out are equal (ours).
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
        """(B, N) devices, 0 for padding; deterministic ones are each unit's most frequent."""
        if deterministic:
            return self.most_frequent()
        groups = self.grouper.sample()
        devices = self.devices(groups)
        self.memory.keep(self.graph, devices, groups)
        return devices

    def most_frequent(self) -> Tensor:
        """(B, N) devices that most of several groupings lead to, always the same ones.

        The likeliest group of each unit alone would be a grouping that is hardly ever drawn.
        """
        device = self.mask.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            drawn = [self.devices(self.grouper.sample(), greedy=True) for _ in range(VOTES)]
        return torch.stack(drawn).mode(dim=0).values

    def devices(self, groups: Tensor, greedy: bool = False) -> Tensor:
        """(B, N) devices of the units of (B, N) groups."""
        place, taken = in_order(groups, self.mask)
        return self.sequence(place, taken).get_actions(greedy).gather(1, place) * self.mask

    def given(self, actions: Tensor) -> Joint:
        """How likely (B, N) devices are together with the groups that they were sampled with."""
        groups = self.memory.recall(self.graph, actions, self.grouper.mode())
        place, taken = in_order(groups, self.mask)
        of_places = torch.zeros_like(taken, dtype=torch.int64)
        of_places.scatter_reduce_(1, place, actions.long() * self.mask, "amax")
        devices = self.sequence(place, taken).given(of_places)
        return Joint(self.grouper, groups, devices, of_places)

    def sequence(self, place: Tensor, taken: Tensor) -> Sequence:
        """The choice of the devices of (B, M) groups, which units have (B, N) places among."""
        sequence = self.placed(place, taken)
        if self.allowed is None:
            return sequence
        forbidden = (~self.allowed & self.mask[..., None]).long()
        index = place[..., None].expand_as(forbidden)
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
        of_places: (B, M) their devices.
    """

    grouper: UnitCategorical
    groups: Tensor
    devices: UnitCategorical
    of_places: Tensor

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) of both."""
        return self.grouper.log_prob(self.groups) + self.devices.log_prob(self.of_places)

    def entropy(self) -> Tensor:
        """(B,) of both."""
        return self.grouper.entropy() + self.devices.entropy()
