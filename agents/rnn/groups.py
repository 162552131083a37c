"""Groups of units, which the hierarchical placer draws and places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from agents.common import GraphBatch, PlacementMemory, UnitCategorical, intersect_followers
from agents.rnn.networks import AutoregressiveDevices

VOTES = 31
"""Groupings that are sampled for a prediction by majority."""


@dataclass(frozen=True, eq=False)
class UnitGroups:
    """Groups of units in B rows, numbered in the order of their first units."""

    group: Tensor  # (B, N) group of each unit, 0 for padding
    mask: Tensor  # (B, N) bool, False for padding
    is_group: Tensor  # (B, M) bool, False for padding

    def mean(self, values: Tensor) -> Tensor:
        """(B, M, F) means over groups of (B, N, F) values, zero for padding."""
        index, mask = self.group[..., None].expand_as(values), self.mask.to(values.dtype)
        zeros = values.new_zeros(*self.is_group.shape, values.shape[2])
        total = zeros.scatter_add(1, index, values * mask[..., None])
        count = values.new_zeros(self.is_group.shape).scatter_add(1, self.group, mask)
        return total / count.clamp(min=1.0)[..., None]

    def share_allowed(self, allowed: Tensor) -> Tensor:
        """(B, M, D) bool, the devices that all units of a group allow in a (B, N, D) mask."""
        allowed = allowed | ~self.mask[..., None]
        return intersect_followers(allowed, self.group, self.is_group.shape[1])

    def spread(self, devices: Tensor) -> Tensor:
        """(B, N) device of each unit from (B, M) devices of groups; 0 for padding."""
        return devices.gather(1, self.group) * self.mask


def order_groups(groups: Tensor, mask: Tensor) -> UnitGroups:
    """Order (B, N) groups by their first units; ``mask`` is (B, N) bool, False for padding.

    Deviation: the paper orders them by their numbers.
    """
    n_groups, n = int(groups.max()) + 1, groups.shape[1]
    unit = torch.arange(n, device=groups.device).expand_as(groups).where(mask, n)
    first = torch.full((len(groups), n_groups), n, device=groups.device)
    first.scatter_reduce_(1, groups, unit, "amin")
    present = first < n
    rank = first.argsort(dim=1).argsort(dim=1)
    most = int(present.sum(dim=1).max())
    is_group = present.gather(1, first.argsort(dim=1))[:, :most]
    return UnitGroups(rank.gather(1, groups) * mask, mask, is_group)


def describe_groups(
    units: Tensor, graphs: GraphBatch, row: Tensor, groups: UnitGroups, width: int
) -> Tensor:
    """(B, M, F + 2 * width) asinh of each group's summed features and of its edges to each group.

    Args:
        units: (G, N, F) features of padded units, zero for padding.
        graphs: The G graphs.
        row: (B,) graph of each row.
        groups: The groups of the B rows.
        width: Maximum number of groups.
    """
    group, (n_rows, n_groups) = groups.group, groups.is_group.shape
    index = group[..., None].expand(-1, -1, units.shape[2])
    summed = units.new_zeros(n_rows, n_groups, units.shape[2]).scatter_add(1, index, units[row])
    edges = units.new_zeros(n_rows, width * width)
    for graph in range(len(graphs.ids)):
        rows = (row == graph).nonzero()[:, 0]
        source, target = graphs.edges_of(graph)
        pair = group[rows][:, source] * width + group[rows][:, target]
        edges[rows] = edges[rows].scatter_add(1, pair, torch.ones_like(pair, dtype=units.dtype))
    sent = edges.view(n_rows, width, width)
    both = [sent[:, :n_groups], sent.transpose(1, 2)[:, :n_groups]]
    return torch.cat([summed, *both], dim=2).asinh()


@dataclass(frozen=True, eq=False)
class GroupedDevices:
    """A ``DeviceDistribution`` that draws groups, then their devices one after another."""

    grouper: UnitCategorical  # of the groups
    place_groups: Callable[[UnitGroups], AutoregressiveDevices]  # of the devices of groups
    memory: PlacementMemory  # groups that the placements so far were sampled with
    graph: Tensor  # (B,) ``graph_id`` of each row
    mask: Tensor  # (B, N) bool, False for padding
    allowed: Tensor | None = None  # (B, N, D) bool, allowed devices of each unit; None allows all

    def get_actions(self, deterministic: bool = False) -> Tensor:
        if deterministic:
            return self.vote()
        groups = self.grouper.sample()
        devices = self.choose_devices(groups)
        self.memory.keep(self.graph, devices, groups)
        return devices

    def vote(self) -> Tensor:
        """(B, N) most frequent device of each unit over groupings sampled with a fixed seed.

        Not of the paper: the most likely groups of all units make a grouping that is hardly ever
        sampled.
        """
        device = self.mask.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            votes = [self.choose_devices(self.grouper.sample(), greedy=True) for _ in range(VOTES)]
        return torch.stack(votes).mode(dim=0).values

    def choose_devices(self, groups: Tensor, greedy: bool = False) -> Tensor:
        """(B, N) devices of units in (B, N) groups."""
        units = order_groups(groups, self.mask)
        return units.spread(self.group_distribution(units).get_actions(greedy))

    def conditioned_on(self, actions: Tensor) -> JointLikelihood:
        """The likelihood of (B, N) devices and of the groups with which they were sampled."""
        groups = self.memory.recall(self.graph, actions, self.grouper.mode())
        units = order_groups(groups, self.mask)
        group_devices = torch.zeros_like(units.is_group, dtype=torch.int64)
        group_devices.scatter_reduce_(1, units.group, actions.long() * self.mask, "amax")
        devices = self.group_distribution(units).conditioned_on(group_devices)
        return JointLikelihood(self.grouper, groups, devices, group_devices)

    def group_distribution(self, groups: UnitGroups) -> AutoregressiveDevices:
        """The distribution of the devices of groups, within those that all their units allow."""
        distribution = self.place_groups(groups)
        if self.allowed is None:
            return distribution
        return distribution.restricted_to(groups.share_allowed(self.allowed))

    def restricted_to(self, allowed: Tensor) -> GroupedDevices:
        both = allowed if self.allowed is None else allowed & self.allowed
        return replace(self, allowed=both)


@dataclass(frozen=True, eq=False)
class JointLikelihood:
    """The likelihood of groups and their devices."""

    grouper: UnitCategorical
    groups: Tensor  # (B, N) group of each unit
    devices: UnitCategorical
    group_devices: Tensor  # (B, M) device of each group

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.grouper.log_prob(self.groups) + self.devices.log_prob(self.group_devices)

    def entropy(self) -> Tensor:
        return self.grouper.entropy() + self.devices.entropy()
