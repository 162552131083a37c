"""The hierarchical placer as an SB3 policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from agents.common.distribution import DeviceDistribution, UnitCategorical
from agents.common.graphs import GraphBatch
from agents.rnn.autoregressive import AutoregressiveDevices
from agents.rnn.grouping import GroupedDevices, Grouper, GroupMemory, describe_groups
from agents.rnn.policy import RNNPolicy
from agents.rnn.segments import count_segments

GROUPS_PER_DEVICE = 20
MAX_GROUPS = 256
RUN_WEIGHT, MAX_DISTANCE = 2.0, 4.0
"""How fast the probability of a group falls with its distance from a unit's run, and how far."""


class HDPPolicy(RNNPolicy):
    """A learned grouper, then the sequence-to-sequence placer on groups (Mirhoseini et al. 2018).

    The policy gradient covers both choices. A placement's groups are those it was sampled with, see
    ``GroupMemory``. A group is described by the sum of what ``RNNPolicy`` knows of its units,
    neighbours included, and by its edges (the paper: type counts and shapes of its units). Takes
    the arguments of ``RNNPolicy``.
    """

    def build(self) -> None:
        """Make the networks."""
        self.build_inputs()
        self.n_groups = min(MAX_GROUPS, GROUPS_PER_DEVICE * self.n_devices)
        self.grouper = Grouper(self.units.width, self.n_groups)
        self.build_network(self.units.width + 2 * self.n_groups)
        self.clear_caches()

    def insert_proposals(
        self, distribution: DeviceDistribution, actions: Tensor, proposed: Tensor
    ) -> Tensor:
        """As ``UnitPolicy.insert_proposals``, with groups for each placement."""
        assert isinstance(distribution, GroupedDevices)
        return torch.cat([distribution.project(proposed), actions[len(proposed) :]])

    def unit_log_prob(self, obs: Any, actions: Tensor) -> Tensor:
        """See ``UnitPolicy.unit_log_prob``; a unit may be in any group of its device."""
        mask, distribution = obs["node_mask"].bool(), self.decide(obs, greedy=True).distribution
        assert isinstance(distribution, GroupedDevices)
        return (distribution.unit_log_prob(actions) * mask).sum(dim=1) / mask.sum(dim=1)

    def clear_caches(self) -> None:
        """Drop the groups of sampled placements; a new rollout begins."""
        self.memory = GroupMemory()

    def _predict(
        self, observation: Any, deterministic: bool = False, action_masks: Any = None
    ) -> Tensor:
        kept, self.memory = self.memory, GroupMemory()
        actions = super()._predict(observation, deterministic, action_masks)
        self.memory = kept
        return actions

    def distribution(
        self, units: Tensor, graphs: GraphBatch, row: Tensor, greedy: bool
    ) -> DeviceDistribution:
        """See ``RNNPolicy.distribution``."""
        room, prior, mask = self.find_room(graphs), self.find_prior(graphs), graphs.node_mask

        def place_groups(place: Tensor, taken: Tensor) -> AutoregressiveDevices:
            groups = describe_groups(units, graphs, row, place, taken, self.n_groups)
            rows = torch.arange(len(row), device=row.device)
            n_places = taken.shape[1]
            encoded = replace(
                self.network.encode(groups, taken, rows),
                prior=None if prior is None else average(prior[row], place, mask[row], n_places),
                room=None if room is None else room.take(row).gather(place, n_places),
            )
            return AutoregressiveDevices(self.network, encoded, taken)

        allowed = graphs.allowed_slots
        logits = self.grouper(units)
        if self.coarse:
            logits = logits + prefer_runs(mask, self.n_groups, float(self.remaining))
        return GroupedDevices(
            grouper=UnitCategorical(logits, mask, row=row),
            place_groups=place_groups,
            memory=self.memory,
            graph=torch.tensor(graphs.ids, device=row.device)[row],
            mask=mask[row],
            allowed=None if allowed is None else allowed[row],
        )


def average(values: Tensor, place: Tensor, mask: Tensor, n_places: int) -> Tensor:
    """(B, M, F) means over groups of (B, N, F) values.

    Args:
        values: Of padded units.
        place: (B, N) place of each unit's group.
        mask: (B, N) bool, False for padding.
        n_places: M.
    """
    index = place[..., None].expand_as(values)
    kept = values * mask[..., None]
    total = values.new_zeros(len(values), n_places, values.shape[2]).scatter_add(1, index, kept)
    count = values.new_zeros(len(values), n_places).scatter_add(1, place, mask.to(values.dtype))
    return total / count.clamp(min=1.0)[..., None]


def prefer_runs(mask: Tensor, n_groups: int, remaining: float) -> Tensor:
    """(G, N, n_groups) logits that gather units in runs, few and long ones at first.

    Args:
        mask: (G, N) bool, False for padding.
        n_groups: Maximum number of groups.
        remaining: Progress of the training that remains, from 1 to 0.
    """
    sizes = mask.sum(dim=1)
    counts = [count_segments(min(n, n_groups), remaining) for n in sizes.tolist()]
    share = torch.arange(mask.shape[1], device=mask.device) / sizes[:, None]
    at = (share * torch.tensor(counts, device=mask.device)[:, None]).floor()
    groups = torch.arange(n_groups, device=mask.device)
    return -RUN_WEIGHT * (at[..., None] - groups).abs().clamp(max=MAX_DISTANCE)
