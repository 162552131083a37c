"""GO as an SB3 policy, and the two graph convolutions that it has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from agents.common import (
    Decision,
    Encoder,
    GraphBatch,
    TensorDict,
    UnitCategorical,
    UnitPolicy,
    global_mean_pool,
    make_perceptron,
    select_columns,
)
from agents.gdp.networks import (
    UNIT_COLUMNS,
    DeviceHead,
    GraphSAGE,
    PlainHead,
    SegmentAttention,
    describe_units,
    find_neighbours,
)
from agents.gdp.stages import DecisionStages, StagedDistribution, read_parts
from placement_gym.base import UserError, check_integer
from placement_gym.envs import FEATURES

PAPER_FEATURES = ("type", "shape", "in_degree", "out_degree")
OWN_FEATURES = tuple(name for name in FEATURES if name != "cost")
"""All but costs, which have a column for each device; ``DeviceHead`` reads them by unit and device.
"""
CRITIC_HIDDEN, GCN_CRITIC_HIDDEN = 128, 64


class Reading(NamedTuple):
    """The network's output for a batch of graphs."""

    ids: tuple[int, ...]  # ``graph_id`` of each graph
    weights: int  # version of the weights
    h: Tensor  # (n, hidden) input of the heads
    context: Tensor  # (G, hidden) embeddings of the graphs


@dataclass(frozen=True)
class GOOptions:
    """Options of ``GOPolicy``; saved models name them.

    Attributes:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        devices: Whether the network sees times, limits and links of the devices, so that it fits
            any number of them; needs ``graph_table(devices=True)`` or ``observe_devices=True``.
            False ends in one output for each device, as published.
        hidden: Width of embeddings, a multiple of ``heads``.
        rounds: Rounds of GraphSAGE.
        layers: Layers of attention.
        heads: Heads of attention.
        segment: Units of a segment.
        memory: Units before a segment that it reads, at least one.
        recompute: Whether the backward pass computes activations of the attention again, so that
            those of a few segments are kept at a time. False is faster, and takes more memory.
    """

    features: Sequence[str] = OWN_FEATURES
    devices: bool = True
    hidden: int = 128
    rounds: int = 3
    layers: int = 2
    heads: int = 4
    segment: int = 512
    memory: int = 512
    recompute: bool = True

    def __post_init__(self) -> None:
        check_integer("heads", self.heads, 1)
        check_integer("hidden", self.hidden, 1)
        if self.hidden % self.heads:
            raise UserError(f"hidden must be a multiple of heads, {self.heads}, not {self.hidden}")


class GOPolicy(UnitPolicy, ActorCriticPolicy):
    """Places all units at once, by one network for graphs of any size (Zhou et al. 2020, "GO").

    GraphSAGE embeds the units, segment-recurrent attention relates those that are near in
    topological order, and the mean of the embeddings modulates every dense layer of the attention.
    Where actions decide priority and fusion, too, ``DecisionStages`` follow the placement.

    This reading depends on graphs and weights alone: the first gradient step on a rollout continues
    from that of the rollout.

    Takes the options of ``GOOptions`` and the arguments of ``UnitPolicy``.

    Raises:
        UserError: See ``UnitPolicy``; or unknown features, or a size is out of range.
    """

    Options = GOOptions
    options: GOOptions
    joint = True
    latest: Reading | None = None

    def build(self) -> None:
        """Make the networks."""
        parts = read_parts(self.observation_space, self.action_space)
        assert parts is not None
        self.sizes = [count for count in parts.counts if count]
        self.network = GONetwork(self.n_devices, self.options, parts.decisions[1:])
        hidden = self.options.hidden
        self.critic = make_perceptron(hidden, CRITIC_HIDDEN, 1) if self.has_critic else None

    @classmethod
    def read_actions(
        cls, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
    ) -> tuple[int, int] | None:
        """See ``UnitPolicy``; priority and fusion may be decided, too."""
        parts = read_parts(observation_space, action_space)
        return None if parts is None else (parts.units, parts.devices)

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row = self.graphs.batch(observation)
        *_, h, context = self.read(graphs)
        values = self.compute_values(context)[row]
        logits = graphs.pad(self.network.head(h, graphs))
        devices = UnitCategorical(logits, graphs.node_mask, None, graphs.allowed_slots, row)
        if self.network.stages is None:
            return Decision(devices, values)
        later = partial(self.network.stages, h, context, graphs)
        return Decision(StagedDistribution(devices, later, self.sizes), values)

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; the reading is kept for the first step on the rollout."""
        with torch.enable_grad():
            self.latest = self.read(self.graphs.batch(obs)[0])
        return super().forward(obs, deterministic, action_masks)

    def read(self, graphs: GraphBatch) -> Reading:
        """Read graphs, or take the latest reading if it is of them and of the same weights.

        A backward pass frees the activations: where gradients are needed, it is taken once.
        """
        state = graphs.ids, sum(p._version for p in self.parameters())
        reading = self.latest
        if torch.is_grad_enabled():
            self.latest = None
        if reading is not None and reading[:2] == state:
            return reading
        h, context = self.network.embed(graphs)
        return Reading(*state, self.network.relate(h, context, graphs), context)

    def clear_caches(self) -> None:
        """See ``UnitPolicy``."""
        self.latest = None

    def predict_values(self, obs: Any) -> Tensor:
        """(B, 1) expected returns; the attention is not needed for them."""
        if self.critic is None:
            return super().predict_values(obs)
        graphs, row = self.graphs.batch(obs)
        return self.compute_values(self.network.embed(graphs)[1])[row]

    def compute_values(self, context: Tensor) -> Tensor:
        """(G, 1) expected returns, zero without a critic."""
        if self.critic is None:
            return context.new_zeros(len(context), 1)
        values: Tensor = self.critic(context)
        return values


class GONetwork(nn.Module):
    """Embeddings of units and their logits."""

    columns: Tensor

    def __init__(self, n_devices: int, options: GOOptions, further: Sequence[str]) -> None:
        super().__init__()
        columns, hidden = select_columns(options.features), options.hidden
        self.register_buffer("columns", torch.tensor(columns), persistent=False)
        self.devices = options.devices
        self.encoder = GraphSAGE(len(columns) + UNIT_COLUMNS * self.devices, hidden, options.rounds)
        window = options.segment, options.memory, options.recompute
        self.attention = SegmentAttention(hidden, options.heads, options.layers, *window)
        self.head = DeviceHead(hidden, hidden) if self.devices else PlainHead(hidden, n_devices)
        self.stages: DecisionStages | None = None
        if further:
            between = SegmentAttention(hidden, options.heads, 1, *window)
            self.stages = DecisionStages(further, n_devices, self.devices, hidden, between)

    def embed(self, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
        """(n, hidden) embeddings of units and (G, hidden) of graphs."""
        x = graphs.scaled[:, self.columns]
        if self.devices:
            x = torch.cat([x, describe_units(graphs)], dim=1)
        h = self.encoder(x, find_neighbours(graphs))
        means = [of_graph.mean(dim=0) for of_graph in torch.split(h, graphs.ptr.diff().tolist())]
        return h, torch.stack(means)

    def relate(self, h: Tensor, context: Tensor, graphs: GraphBatch) -> Tensor:
        """(n, hidden) input of the heads, by attention over the results of ``embed``."""
        of_graphs = zip(torch.split(h, graphs.ptr.diff().tolist()), context, strict=True)
        return torch.cat([self.attention(units, of_graph) for units, of_graph in of_graphs])


@dataclass(frozen=True)
class GCNOptions:
    """Options of ``GCNPolicy``; saved models name them.

    Attributes:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        hidden: Width of embeddings.
        layers: Graph convolutions.
    """

    features: Sequence[str] = tuple(FEATURES)
    hidden: int = 64
    layers: int = 2


class GCNPolicy(UnitPolicy, ActorCriticPolicy):
    """Two graph convolutions, then a device for each unit: the floor for GO's attention.

    Takes the options of ``GCNOptions`` and the arguments of ``UnitPolicy``.

    Raises:
        UserError: See ``UnitPolicy``; or unknown features.
    """

    Options = GCNOptions
    options: GCNOptions

    def build(self) -> None:
        """Make the networks."""
        hidden = self.options.hidden
        self.encoder = Encoder(self.options.features, hidden, self.options.layers)
        self.head = nn.Linear(hidden, self.n_devices)
        self.critic = make_perceptron(hidden, GCN_CRITIC_HIDDEN, 1) if self.has_critic else None

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row = self.graphs.batch(observation)
        h = self.encoder(graphs)
        logits = graphs.pad(self.head(h))
        devices = UnitCategorical(logits, graphs.node_mask, None, graphs.allowed_slots, row)
        if self.critic is None:
            return Decision(devices, h.new_zeros(len(row), 1))
        return Decision(devices, self.critic(global_mean_pool(h, graphs.batch))[row])
