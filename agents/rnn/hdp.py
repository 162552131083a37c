"""The hierarchical placer as an SB3 policy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from agents.common.distribution import DeviceDistribution
from agents.common.graph_policy import make_perceptron
from agents.common.graphs import GraphBatch
from agents.rnn.autoregressive import AutoregressiveDevices
from agents.rnn.grouping import GroupedDevices, Grouper, GroupMemory, describe_groups
from agents.rnn.networks import Seq2Seq
from agents.rnn.policy import CRITIC_HIDDEN, RNNPolicy
from agents.rnn.unit_features import UnitFeatures

GROUPS_PER_DEVICE = 20
MAX_GROUPS = 256


class HDPPolicy(RNNPolicy):
    """A learned grouper, then the sequence-to-sequence placer on groups (Mirhoseini et al. 2018).

    The policy gradient covers both choices. A placement's groups are those it was sampled with, see
    ``GroupMemory``. A group is described by the sum of what ``RNNPolicy`` knows of its units,
    neighbours included, and by its edges (the paper: type counts and shapes of its units). Takes
    the arguments of ``RNNPolicy``.
    """

    imitates = False

    def build(self) -> None:
        """Make the networks."""
        self.units = UnitFeatures(self.features)
        self.n_groups = min(MAX_GROUPS, GROUPS_PER_DEVICE * self.n_devices)
        self.grouper = Grouper(self.units.width, self.n_groups)
        self.critic = (
            make_perceptron(self.units.width, CRITIC_HIDDEN, 1) if self.has_critic else None
        )
        width = self.units.width + 2 * self.n_groups
        self.network = Seq2Seq(width, self.n_devices, **self.sizes)
        self.clear_caches()

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

    def distribution(self, units: Tensor, graphs: GraphBatch, row: Tensor) -> DeviceDistribution:
        """See ``RNNPolicy.distribution``."""

        def place_groups(place: Tensor, taken: Tensor) -> AutoregressiveDevices:
            groups = describe_groups(units, graphs, row, place, taken, self.n_groups)
            rows = torch.arange(len(row), device=row.device)
            return AutoregressiveDevices(
                self.network, self.network.encode(groups, taken, rows), taken
            )

        allowed = graphs.allowed_slots
        return GroupedDevices(
            grouper=self.grouper(units, graphs.node_mask, row),
            place_groups=place_groups,
            memory=self.memory,
            graph=torch.tensor(graphs.ids, device=row.device)[row],
            mask=graphs.node_mask[row],
            allowed=None if allowed is None else allowed[row],
        )
