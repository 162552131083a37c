"""The RNN placer, and the hierarchical placer, as SB3 policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

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
from agents.rnn.groups import GroupedDevices, Grouper, UnitGroups, describe_groups
from agents.rnn.networks import AutoregressiveDevices, DevicePreferences, Seq2Seq, UnitFeatures

PAPER_FEATURES = ("type", "shape")
CRITIC_HIDDEN = 128
GROUPS_PER_DEVICE = 20
MAX_GROUPS = 256
HIDDEN = 64
"""Width of the grouper's hidden layer."""
VOTES = 31
"""Groupings that are sampled for a prediction."""


@dataclass(frozen=True)
class RNNOptions:
    """Options of ``RNNPolicy`` and ``HDPPolicy``; saved models name them.

    ``devices`` and ``respect_memory`` are not of the papers.

    Attributes:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        hidden: Width of the encoder's LSTM in each direction.
        decoder: Width of the decoder's LSTM.
        attention: Width of queries and keys.
        segment: Units per attention window; see ``Seq2Seq``.
        devices: Whether times, limits and transfers of devices are seen, and logits begin with a
            preference for faster ones, see ``agents.common.devices``.
        cost_weight: Initial weight of the preference for faster devices, with ``devices``.
        respect_memory: Whether ``RNNPolicy`` chooses only devices with room for the unit after
            those before it; limits are read as with ``devices``.
    """

    features: Sequence[str] = PAPER_FEATURES
    hidden: int = 256
    decoder: int = 512
    attention: int = 64
    segment: int = 128
    devices: bool = False
    cost_weight: float = 2.0
    respect_memory: bool = False


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
        self.build_inputs()
        self.build_network(self.units.width)

    def build_inputs(self) -> None:
        """Make the inputs of units and devices, and the critic."""
        self.units = UnitFeatures(self.options.features, self.n_devices * self.options.devices)
        self.preferences = (
            DevicePreferences(self.options.cost_weight) if self.options.devices else None
        )
        self.critic = (
            make_perceptron(self.units.width, CRITIC_HIDDEN, 1) if self.has_critic else None
        )

    def build_network(self, width: int) -> None:
        """Make the network for places of this width."""
        options = self.options
        self.network = Seq2Seq(
            width,
            self.n_devices,
            options.hidden,
            options.decoder,
            options.attention,
            options.segment,
        )

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row = self.graphs.batch(observation)
        units = self.units(graphs)
        devices = self.distribution(units, graphs, row)
        return Decision(devices, self.compute_values(units, graphs)[row])

    def distribution(self, units: Tensor, graphs: GraphBatch, row: Tensor) -> DeviceDistribution:
        """The distribution of the devices of B rows, each about one of G graphs.

        Args:
            units: (G, N, width) unit features.
            graphs: The G graphs.
            row: (B,) graph of each row.
        """
        allowed, mask = graphs.allowed_slots, graphs.node_mask
        memory = FreeMemory.from_batch(graphs, row) if self.options.respect_memory else None
        encoded = replace(self.network.encode(units, mask, row), prior=self.compute_prior(graphs))
        allowed = None if allowed is None else allowed[row]
        return AutoregressiveDevices(self.network, encoded, mask[row], allowed, memory)

    def compute_prior(self, graphs: GraphBatch) -> Tensor | None:
        """(G, N, D) preferences of units for devices, if devices are seen."""
        if self.preferences is None:
            return None
        features, unit_ms = describe_units_on_devices(graphs), graphs.device_tables.unit_ms
        return graphs.pad(self.preferences(features, unit_ms))

    def compute_values(self, units: Tensor, graphs: GraphBatch) -> Tensor:
        """(G, 1) expected returns, zero without a critic."""
        if self.critic is None:
            return units.new_zeros(len(units), 1)
        values: Tensor = self.critic(units.sum(dim=1) / graphs.node_mask.sum(dim=1, keepdim=True))
        return values


class HDPPolicy(RNNPolicy):
    """A learned grouper, then the sequence-to-sequence placer on groups (Mirhoseini et al. 2018).

    The policy gradient covers both choices. A placement's groups are those it was sampled with, see
    ``PlacementMemory``. Deviation: a group is described by the sum of the inputs of ``RNNPolicy``
    for its units, neighbours included, and by its edges; in the paper, by type counts, shapes and
    edges. Takes the arguments of ``RNNPolicy``.
    """

    def build(self) -> None:
        """Make the networks."""
        self.build_inputs()
        self.n_groups = min(MAX_GROUPS, GROUPS_PER_DEVICE * self.n_devices)
        self.grouper = Grouper(self.units.width, HIDDEN, self.n_groups)
        self.build_network(self.units.width + 2 * self.n_groups)
        self.clear_caches()

    def clear_caches(self) -> None:
        """Drop the groups of sampled placements; a new rollout begins."""
        self.memory = PlacementMemory()

    def _predict(self, observation: Any, deterministic: bool = False) -> Tensor:
        memory, self.memory = self.memory, PlacementMemory()
        actions = super()._predict(observation, deterministic)
        self.memory = memory
        return actions

    def distribution(self, units: Tensor, graphs: GraphBatch, row: Tensor) -> DeviceDistribution:
        """See ``RNNPolicy.distribution``."""
        prior, mask = self.compute_prior(graphs), graphs.node_mask

        def place_groups(groups: UnitGroups) -> AutoregressiveDevices:
            described = describe_groups(units, graphs, row, groups, self.n_groups)
            rows = torch.arange(len(row), device=row.device)
            encoded = replace(
                self.network.encode(described, groups.is_group, rows),
                prior=None if prior is None else groups.mean(prior[row]),
            )
            return AutoregressiveDevices(self.network, encoded, groups.is_group)

        allowed = graphs.allowed_slots
        return GroupedDevices(
            grouper=UnitCategorical(self.grouper(units), mask, row=row),
            place_groups=place_groups,
            memory=self.memory,
            graph=torch.tensor(graphs.ids, device=row.device)[row],
            mask=mask[row],
            votes=VOTES,
            allowed=None if allowed is None else allowed[row],
        )
