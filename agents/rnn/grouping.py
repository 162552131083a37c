"""The grouper of the hierarchical placer, and the joint distribution of groups and devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.common.distribution import FORBIDDEN, PlacementMemory, UnitCategorical
from agents.common.graphs import GraphBatch
from agents.rnn.networks import AutoregressiveDevices
from agents.rnn.places import Places, order_groups

HIDDEN, VOTES = 64, 31
GroupPlacer = Callable[[Places], AutoregressiveDevices]
"""Makes the distribution of the devices of groups."""


class Grouper(nn.Module):
    """Samples the group of each unit (Mirhoseini et al. 2018, section 3).

    Args:
        width: Width of the input of a unit.
        n_groups: Maximum number of groups.
    """

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
    place, (n_rows, n_places) = groups.place, groups.taken.shape
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

    def project(self, proposed: Tensor) -> Tensor:
        """(k, N) placements like (k, N) others, with groups that are kept for the first k rows.

        They are equal where ``regroup`` finds a group for every unit. Elsewhere the device of a
        group is that of most of its units, among those that all of them allow.
        """
        k = len(proposed)
        if not k:
            return proposed
        groups = self.regroup(proposed)
        places = order_groups(groups, self.mask[:k])
        devices = places.spread(self.find_majority(proposed, places))
        self.memory.keep(self.graph[:k], devices, groups)
        return devices

    def regroup(self, proposed: Tensor) -> Tensor:
        """(k, N) groups near sampled ones, whose units have one device in (k, N) placements.

        A unit that is not on the device of most of its group goes to the likeliest group on its own
        device. A device without a group gets one that has no units, if there is one left.
        """
        k, n_devices = len(proposed), int(proposed.max()) + 1
        groups, mask = self.grouper.sample()[:k], self.mask[:k]
        likely = self.grouper.log_probs[:k]
        # the device of most units of each group; groups without units have none
        votes = groups.new_zeros(k, likely.shape[2], n_devices)
        index = groups[..., None].expand(-1, -1, n_devices)
        votes.scatter_add_(1, index, functional.one_hot(proposed, n_devices) * mask[..., None])
        device_of = votes.argmax(dim=2).masked_fill(votes.sum(dim=2) == 0, -1)
        # a device that lost every vote gets a group without units, if there is one
        for device in range(n_devices):
            free = device_of == -1
            lacks = votes[..., device].any(dim=1) & ~(device_of == device).any(dim=1)
            (row,) = (lacks & free.any(dim=1)).nonzero(as_tuple=True)
            device_of[row, free[row].int().argmax(dim=1)] = device
        fits = device_of[:, None] == proposed[..., None]
        stays = fits.gather(2, groups[..., None])[..., 0] | ~fits.any(dim=2)
        return torch.where(stays, groups, likely.masked_fill(~fits, FORBIDDEN).argmax(dim=2)) * mask

    def find_majority(self, devices: Tensor, groups: Places) -> Tensor:
        """(k, M) device of most units of each group, among those that all of its units allow.

        Args:
            devices: (k, N) of the units of the first k rows.
            groups: Of these rows.
        """
        shared = self.share_allowed(groups)
        n_devices = -1 if shared is None else shared.shape[2]
        votes = functional.one_hot(devices.long(), n_devices) * groups.mask[..., None]
        total = votes.new_zeros(*groups.taken.shape, votes.shape[2])
        total.scatter_add_(1, groups.place[..., None].expand_as(votes), votes)
        return (total if shared is None else total.masked_fill(~shared, -1)).argmax(dim=2)

    def unit_log_prob(self, actions: Tensor) -> Tensor:
        """(B, N) log-probability of each unit's device in whichever of the groups it may be.

        Groups and their devices are those of ``project``; the unit's own group is summed out, so
        that the gradient leads units to groups of their device as well as groups to devices.
        """
        actions = actions.long()
        groups = self.regroup(actions)
        places = order_groups(groups, self.mask)
        chosen = self.find_majority(actions, places)
        of_group = self.group_distribution(places).conditioned_on(chosen).log_probs
        group_at = torch.zeros_like(chosen).scatter_reduce_(1, places.place, groups, "amax")
        n_units = actions.shape[1]
        joins = self.grouper.log_probs.gather(2, group_at[:, None].expand(-1, n_units, -1))
        runs_on = of_group.gather(2, actions[:, None].expand(-1, chosen.shape[1], -1))
        both = joins.masked_fill(~places.taken[:, None], FORBIDDEN) + runs_on.transpose(1, 2)
        return both.logsumexp(dim=2)

    def conditioned_on(self, actions: Tensor) -> JointLikelihood:
        """The likelihood of (B, N) devices together with the groups they were sampled with."""
        groups = self.memory.recall(self.graph, actions, self.grouper.mode())
        places = order_groups(groups, self.mask)
        group_devices = torch.zeros_like(places.taken, dtype=torch.int64)
        group_devices.scatter_reduce_(1, places.place, actions.long() * self.mask, "amax")
        devices = self.group_distribution(places).conditioned_on(group_devices)
        return JointLikelihood(self.grouper, groups, devices, group_devices)

    def group_distribution(self, groups: Places) -> AutoregressiveDevices:
        """The distribution of the devices of (B, M) groups."""
        distribution, shared = self.place_groups(groups), self.share_allowed(groups)
        return distribution if shared is None else distribution.restricted_to(shared)

    def share_allowed(self, groups: Places) -> Tensor | None:
        """(k, M, D) bool, what all units of a group in the first k rows allow; None if all do."""
        if self.allowed is None:
            return None
        return groups.share_allowed(self.allowed[: len(groups.place)])

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
