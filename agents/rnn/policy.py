"""The RNN placer and the hierarchical placer as SB3 policies."""

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
GROUPS_PER_DEVICE, MAX_GROUPS = 20, 256
HIDDEN = 64
"""Width of the grouper's hidden layer."""


class RNNPolicy(UnitPolicy, ActorCriticPolicy):
    """Places units one after another in topological order (Mirhoseini et al. 2017, "ColocRL").

    Takes the options of ``RNNOptions`` and the arguments of ``UnitPolicy``.
    """

    Options = RNNOptions
    options: RNNOptions

    def build(self) -> None:
        options = self.options
        self.units = UnitFeatures(options.features, self.n_devices * options.devices)
        self.preferences = DevicePreferences(options.cost_weight) if options.devices else None
        width = self.units.width
        self.critic = make_perceptron(width, CRITIC_HIDDEN, 1) if self.has_critic else None
        self.network = Seq2Seq(self.build_places(), self.n_devices, options)

    def build_places(self) -> int:
        """Make networks that describe the places of a sequence, and return the width of a place."""
        return self.units.width

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
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
        """The distribution of the devices of B rows, each of one of G graphs.

        Args:
            units: (G, N, width) unit features.
            graphs: The G graphs.
            row: (B,) graph of each row.
            prior: (B, N, D) preferences of units for devices; None if devices are not read.
        """
        allowed, mask = graphs.allowed_slots, graphs.node_mask
        memory = FreeMemory.from_batch(graphs, row) if self.options.respect_memory else None
        sequences = Sequences(self.network.encode(units, mask)[row], mask[row], prior)
        allowed = None if allowed is None else allowed[row]
        return AutoregressiveDevices(self.network, sequences, allowed, memory)


class HDPPolicy(RNNPolicy):
    """A learned grouper, then the sequence-to-sequence placer on groups (Mirhoseini et al. 2018).

    The policy gradient covers both choices. The groups of a placement are those with which it was
    sampled, see ``PlacementMemory``. Deviation: a group is described by the sum of its units'
    inputs in ``RNNPolicy``, neighbours included, and by its edges; in the paper, by type counts,
    shapes and edges. Takes the arguments of ``RNNPolicy``.
    """

    def build_places(self) -> int:
        self.n_groups = min(MAX_GROUPS, GROUPS_PER_DEVICE * self.n_devices)
        width = self.units.width
        hidden = nn.Linear(width, HIDDEN)
        self.grouper = nn.Sequential(hidden, nn.ReLU(), nn.Linear(HIDDEN, self.n_groups))
        self.clear_caches()
        return width + 2 * self.n_groups

    def clear_caches(self) -> None:
        self.memory = PlacementMemory()

    def _predict(self, observation: Any, deterministic: bool = False) -> Tensor:
        # a prediction leaves the groups of the rollout unchanged
        memory, self.memory = self.memory, PlacementMemory()
        actions = super()._predict(observation, deterministic)
        self.memory = memory
        return actions

    def place(
        self, units: Tensor, graphs: GraphBatch, row: Tensor, prior: Tensor | None
    ) -> DeviceDistribution:
        def place_groups(groups: UnitGroups) -> AutoregressiveDevices:
            described = describe_groups(units, graphs, row, groups, self.n_groups)
            of_groups = None if prior is None else groups.mean(prior)
            encoding = self.network.encode(described, groups.is_group)
            sequences = Sequences(encoding, groups.is_group, of_groups)
            return AutoregressiveDevices(self.network, sequences)

        allowed, mask = graphs.allowed_slots, graphs.node_mask
        return GroupedDevices(
            grouper=UnitCategorical(self.grouper(units), mask, row=row),
            place_groups=place_groups,
            memory=self.memory,
            graph=torch.tensor(graphs.ids, device=row.device)[row],
            mask=mask[row],
            allowed=None if allowed is None else allowed[row],
        )
