"""The grouper of the hierarchical placer, and the joint distribution of groups and devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from agents.common import GraphBatch, PlacementMemory, UnitCategorical
from agents.rnn.networks import AutoregressiveDevices
from agents.rnn.places import Places, order_groups

HIDDEN, VOTES = 64, 31
GroupPlacer = Callable[[Places], AutoregressiveDevices]
"""Makes the distribution of the devices of groups."""


class Grouper(nn.Module):
    """Samples the group of each unit (Mirhoseini et al. 2018, section 3)."""

    def __init__(self, width: int, n_groups: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_groups)
        )

    def forward(self, units: Tensor) -> Tensor:
        """(S, N, n_groups) logits of the groups of (S, N, width) units."""
        logits: Tensor = self.layers(units)
        return logits


def describe_groups(
    units: Tensor, graphs: GraphBatch, row: Tensor, groups: Places, width: int
) -> Tensor:
    """(B, M, F + 2 * width) asinh of each group's summed features and of its edges to each group.

    Args:
        units: (G, N, F) features of padded units, zero for padding.
        graphs: The G graphs.
        row: (B,) graph of each row.
        groups: Of the B rows.
        width: Maximum number of groups.
    """
    place, (n_rows, n_places) = groups.place, groups.is_place.shape
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


@dataclass(frozen=True, eq=False)
class GroupedDevices:
    """Groups are sampled first, then their devices one after another.

    Attributes:
        grouper: Distribution of the groups.
        place_groups: See ``GroupPlacer``.
        memory: Groups that the placements so far were sampled with.
        graph: (B,) ``graph_id`` of each row.
        mask: (B, N) bool, False for padding.
        allowed: (B, N, D) bool, allowed devices of each unit; None allows all.
    """

    grouper: UnitCategorical
    place_groups: GroupPlacer
    memory: PlacementMemory
    graph: Tensor
    mask: Tensor
    allowed: Tensor | None = None

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, N) devices, 0 for padding; deterministic ones are chosen by ``vote``."""
        if deterministic:
            return self.vote()
        groups = self.grouper.sample()
        devices = self.choose_devices(groups)
        self.memory.keep(self.graph, devices, groups)
        return devices

    def vote(self) -> Tensor:
        """(B, N) most frequent device of each unit over groupings sampled with a fixed seed.

        Ours: the most likely group of each unit would make a grouping that is hardly ever sampled.
        """
        device = self.mask.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            votes = [self.choose_devices(self.grouper.sample(), greedy=True) for _ in range(VOTES)]
        return torch.stack(votes).mode(dim=0).values

    def choose_devices(self, groups: Tensor, greedy: bool = False) -> Tensor:
        """(B, N) devices of units in (B, N) groups."""
        places = order_groups(groups, self.mask)
        return places.spread(self.group_distribution(places).get_actions(greedy))

    def conditioned_on(self, actions: Tensor) -> JointLikelihood:
        """The likelihood of (B, N) devices together with the groups they were sampled with."""
        groups = self.memory.recall(self.graph, actions, self.grouper.mode())
        places = order_groups(groups, self.mask)
        group_devices = torch.zeros_like(places.is_place, dtype=torch.int64)
        group_devices.scatter_reduce_(1, places.place, actions.long() * self.mask, "amax")
        devices = self.group_distribution(places).conditioned_on(group_devices)
        return JointLikelihood(self.grouper, groups, devices, group_devices)

    def group_distribution(self, groups: Places) -> AutoregressiveDevices:
        """The distribution of the devices of (B, M) groups."""
        distribution, shared = self.place_groups(groups), self.share_allowed(groups)
        return distribution if shared is None else distribution.restricted_to(shared)

    def share_allowed(self, groups: Places) -> Tensor | None:
        """(B, M, D) bool, what all units of a group allow; None if all do."""
        return None if self.allowed is None else groups.share_allowed(self.allowed)

    def restricted_to(self, allowed: Tensor) -> GroupedDevices:
        """The distribution with only the devices that a (B, N, D) bool mask allows.

        A group is restricted to the devices that all of its units allow.
        """
        both = allowed if self.allowed is None else allowed & self.allowed
        return replace(self, allowed=both)


@dataclass(frozen=True, eq=False)
class JointLikelihood:
    """The joint likelihood of groups and their devices.

    Attributes:
        grouper: Distribution of the groups.
        groups: (B, N) group of each unit.
        devices: Distribution of the groups' devices.
        group_devices: (B, M) device of each group.
    """

    grouper: UnitCategorical
    groups: Tensor
    devices: UnitCategorical
    group_devices: Tensor

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) joint log-probability."""
        return self.grouper.log_prob(self.groups) + self.devices.log_prob(self.group_devices)

    def entropy(self) -> Tensor:
        """(B,) sum of both entropies."""
        return self.grouper.entropy() + self.devices.entropy()
