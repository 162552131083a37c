"""The hierarchical placer as an SB3 policy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from agents.common.distribution import Devices
from agents.common.graph_policy import perceptron
from agents.common.graphs import GraphBatch
from agents.rnn.embedding import Units
from agents.rnn.grouping import Grouped, Grouper, Memory, described
from agents.rnn.networks import Seq2Seq
from agents.rnn.policy import CRITIC, RNNPolicy
from agents.rnn.sequence import Sequence

GROUPS_A_DEVICE = 20
MOST_GROUPS = 256


class HDPPolicy(RNNPolicy):
    """A learned grouper, then the sequence-to-sequence placer on groups (Mirhoseini et al. 2018).

    Both log-probabilities are learned from. A placement's groups are those that it was sampled
    with, see ``Memory``. A group is described by the sum of what ``RNNPolicy`` knows of its units,
    neighbours included, and by its edges (ours; the paper: type counts and shapes of its units).
    Arguments are those of ``RNNPolicy``.
    """

    imitates = False

    def build(self) -> None:
        """Make the networks."""
        self.units = Units(self.features)
        self.n_groups = min(MOST_GROUPS, GROUPS_A_DEVICE * self.n_devices)
        self.grouper = Grouper(self.units.width, self.n_groups)
        self.critic = perceptron(self.units.width, CRITIC, 1) if self.has_critic else None
        width = self.units.width + 2 * self.n_groups
        self.network = Seq2Seq(width, self.n_devices, **self.sizes)
        self.clear_caches()

    def clear_caches(self) -> None:
        """A roll-out begins: what was sampled before is learned from no more."""
        self.memory = Memory()

    def _predict(
        self, observation: Any, deterministic: bool = False, action_masks: Any = None
    ) -> Tensor:
        kept, self.memory = self.memory, Memory()
        actions = super()._predict(observation, deterministic, action_masks)
        self.memory = kept
        return actions

    def devices(self, units: Tensor, graphs: GraphBatch, row: Tensor) -> Devices:
        """See ``RNNPolicy.devices``."""

        def placed(place: Tensor, taken: Tensor) -> Sequence:
            groups = described(units, graphs, row, place, taken, self.n_groups)
            rows = torch.arange(len(row), device=row.device)
            return Sequence(self.network, self.network.encode(groups, taken, rows), taken)

        allowed = graphs.allowed_slots
        return Grouped(
            grouper=self.grouper(units, graphs.node_mask, row),
            placed=placed,
            memory=self.memory,
            graph=torch.tensor(graphs.ids, device=row.device)[row],
            mask=graphs.node_mask[row],
            allowed=None if allowed is None else allowed[row],
        )
