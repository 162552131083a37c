"""The RNN placer, and the hierarchical placer, as SB3 policies."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from agents.common import (
    Decision,
    DeviceDistribution,
    FreeMemory,
    GraphBatch,
    PlacementMemory,
    TensorDict,
    UnitCategorical,
    UnitPolicy,
    describe_units_on_devices,
    make_perceptron,
)
from agents.rnn.groups import GroupedDevices, UnitGroups, describe_groups
from agents.rnn.networks import (
    AutoregressiveDevices,
    DevicePreferences,
    RNNOptions,
    Seq2Seq,
    Sequences,
    UnitFeatures,
)

CRITIC_HIDDEN = 128
GROUPS_PER_DEVICE = 20
MAX_GROUPS = 256
HIDDEN = 64
"""Width of the grouper's hidden layer."""


class RNNPolicy(UnitPolicy, ActorCriticPolicy):
    """Places units one after another in topological order (Mirhoseini et al. 2017, "ColocRL").

    Takes the options of ``RNNOptions`` and the arguments of ``UnitPolicy``.

    Raises:
        UserError: See ``UnitPolicy``; or unknown features.
    """

    Options = RNNOptions
    options: RNNOptions

    def build(self) -> None:
        """Make the networks."""
        options = self.options
        self.units = UnitFeatures(options.features, self.n_devices * options.devices)
        self.preferences = DevicePreferences(options.cost_weight) if options.devices else None
        width = self.units.width
        self.critic = make_perceptron(width, CRITIC_HIDDEN, 1) if self.has_critic else None
        self.network = Seq2Seq(self.build_places(), self.n_devices, options)

    def build_places(self) -> int:
        """Make what describes the places of a sequence, the units, and return its width."""
        return self.units.width

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row = self.graphs.batch(observation)
        units: Tensor = self.units(graphs)
        prior: Tensor | None = None
        if self.preferences is not None:
            features, unit_ms = describe_units_on_devices(graphs), graphs.device_tables.unit_ms
            prior = graphs.pad(self.preferences(features, unit_ms))[row]
        devices = self.place(units, graphs, row, prior)
        if self.critic is None:
            return Decision(devices)
        means = units.sum(dim=1) / graphs.node_mask.sum(dim=1, keepdim=True)
        return Decision(devices, self.critic(means)[row])

    def place(
        self, units: Tensor, graphs: GraphBatch, row: Tensor, prior: Tensor | None
    ) -> DeviceDistribution:
        """The distribution of the devices of B rows, each about one of G graphs.

        Args:
            units: (G, N, width) unit features.
            graphs: The G graphs.
            row: (B,) graph of each row.
            prior: (B, N, D) preferences of units for devices; None if devices are not seen.
        """
        allowed, mask = graphs.allowed_slots, graphs.node_mask
        memory = FreeMemory.from_batch(graphs, row) if self.options.respect_memory else None
        sequences = Sequences(self.network.encode(units, mask)[row], mask[row], prior)
        allowed = None if allowed is None else allowed[row]
        return AutoregressiveDevices(self.network, sequences, allowed, memory)


class HDPPolicy(RNNPolicy):
    """A learned grouper, then the sequence-to-sequence placer on groups (Mirhoseini et al. 2018).

    The policy gradient covers both choices. A placement's groups are those it was sampled with, see
    ``PlacementMemory``. Deviation: a group is described by the sum of the inputs of ``RNNPolicy``
    for its units, neighbours included, and by its edges; in the paper, by type counts, shapes and
    edges. Takes the arguments of ``RNNPolicy``.
    """

    def build_places(self) -> int:
        """Make the grouper, and return the width of what describes a group."""
        self.n_groups = min(MAX_GROUPS, GROUPS_PER_DEVICE * self.n_devices)
        width = self.units.width
        self.grouper = nn.Sequential(
            nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, self.n_groups)
        )
        self.clear_caches()
        return width + 2 * self.n_groups

    def clear_caches(self) -> None:
        """Drop the groups of sampled placements; a new rollout begins."""
        self.memory = PlacementMemory()

    def _predict(self, observation: Any, deterministic: bool = False) -> Tensor:
        memory, self.memory = self.memory, PlacementMemory()
        actions = super()._predict(observation, deterministic)
        self.memory = memory
        return actions

    def place(
        self, units: Tensor, graphs: GraphBatch, row: Tensor, prior: Tensor | None
    ) -> DeviceDistribution:
        """See ``RNNPolicy.place``."""

        def place_groups(groups: UnitGroups) -> AutoregressiveDevices:
            described = describe_groups(units, graphs, row, groups, self.n_groups)
            of_groups = None if prior is None else groups.mean(prior)
            encoding = self.network.encode(described, groups.is_group)
            return AutoregressiveDevices(
                self.network, Sequences(encoding, groups.is_group, of_groups)
            )

        allowed, mask = graphs.allowed_slots, graphs.node_mask
        return GroupedDevices(
            grouper=UnitCategorical(self.grouper(units), mask, row=row),
            place_groups=place_groups,
            memory=self.memory,
            graph=torch.tensor(graphs.ids, device=row.device)[row],
            mask=mask[row],
            allowed=None if allowed is None else allowed[row],
        )
