"""The RNN placer, and the hierarchical placer, as SB3 policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from agents.rnn.networks import AutoregressiveDevices, DevicePreferences, Seq2Seq, UnitFeatures
from agents.rnn.places import Places, order_groups

PAPER_FEATURES = ("type", "shape")
CRITIC_HIDDEN = 128
GROUPS_PER_DEVICE = 20
MAX_GROUPS = 256


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
        memory = FreeMemory.of(graphs, row) if self.options.respect_memory else None
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
        self.grouper = Grouper(self.units.width, self.n_groups)
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

        def place_groups(groups: Places) -> AutoregressiveDevices:
            described = describe_groups(units, graphs, row, groups, self.n_groups)
            rows = torch.arange(len(row), device=row.device)
            encoded = replace(
                self.network.encode(described, groups.is_place, rows),
                prior=None if prior is None else groups.mean(prior[row]),
            )
            return AutoregressiveDevices(self.network, encoded, groups.is_place)

        allowed = graphs.allowed_slots
        return GroupedDevices(
            grouper=UnitCategorical(self.grouper(units), mask, row=row),
            place_groups=place_groups,
            memory=self.memory,
            graph=torch.tensor(graphs.ids, device=row.device)[row],
            mask=mask[row],
            allowed=None if allowed is None else allowed[row],
        )


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

        Added here: the most likely group of each unit would make a grouping that is hardly
        ever sampled.
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
