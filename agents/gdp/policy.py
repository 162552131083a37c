"""GO as an SB3 policy, and its baseline of two graph convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

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
    make_perceptron,
    scatter,
    select_columns,
)
from agents.gdp.networks import (
    UNIT_COLUMNS,
    DeviceHead,
    GOOptions,
    GraphSAGE,
    SegmentAttention,
    describe_units,
    find_neighbours,
)
from agents.gdp.stages import DecisionStages, StagedDistribution, read_parts
from placement_gym.envs import FEATURES

CRITIC_HIDDEN, GCN_CRITIC_HIDDEN = 128, 64
Reading = tuple[Tensor, Tensor]
"""(n, hidden) input of the heads, and (G, hidden) embeddings of the graphs."""


class GOPolicy(UnitPolicy, ActorCriticPolicy):
    """Places all units at once, by one network for graphs of any size (Zhou et al. 2020, "GO").

    GraphSAGE embeds the units, segment-recurrent attention relates those that are near in
    topological order, and the mean of the embeddings modulates every dense layer of the attention.
    Where actions also decide priority and fusion, ``DecisionStages`` follow the placement.

    Takes the options of ``GOOptions`` and the arguments of ``UnitPolicy``.
    """

    Options = GOOptions
    options: GOOptions
    joint = True
    columns: Tensor
    latest: tuple[Any, Reading] | None = None
    """The latest state of graphs and weights, and its reading, which depends on these alone."""

    def build(self) -> None:
        options, actions, hidden = self.options, self.action_space, self.options.hidden
        assert isinstance(actions, spaces.MultiDiscrete)
        columns, parts = select_columns(options.features), read_parts(actions.nvec, self.n_slots)
        self.sizes, further = list(parts.values()), list(parts)[1:]
        self.register_buffer("columns", torch.tensor(columns), persistent=False)
        width = len(columns) + UNIT_COLUMNS * options.devices
        self.encoder = GraphSAGE(width, hidden, options.rounds)
        self.attention = SegmentAttention(options, options.layers)
        devices = options.devices
        self.head = DeviceHead(hidden, hidden) if devices else nn.Linear(hidden, self.n_devices)
        self.stages = DecisionStages(further, self.n_devices, options) if further else None
        self.critic = make_perceptron(hidden, CRITIC_HIDDEN, 1) if self.has_critic else None

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        graphs, row = self.graphs.batch(observation)
        h, context = self.read(graphs)
        values = None if self.critic is None else self.critic(context)[row]
        logits = graphs.pad(self.head(h, graphs) if self.options.devices else self.head(h))
        devices = UnitCategorical(logits, graphs.node_mask, None, graphs.allowed_slots, row)
        if self.stages is None:
            return Decision(devices, values)
        later = partial(self.stages, h, context, graphs)
        return Decision(StagedDistribution(devices, later, self.sizes), values)

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; the first gradient step on the rollout continues from its reading."""
        graphs, _ = self.graphs.batch(obs)
        with torch.enable_grad():
            self.latest = self.find_state(graphs), self.read(graphs)
        return super().forward(obs, deterministic, action_masks)

    def find_state(self, graphs: GraphBatch) -> Any:
        """The ids of the graphs, and the version of the weights."""
        return graphs.ids, sum(p._version for p in self.parameters())

    def read(self, graphs: GraphBatch) -> Reading:
        """Read graphs, or take the latest reading if graphs and weights are the same.

        With gradients it is taken once, as a backward pass frees the activations.
        """
        latest = self.latest
        if torch.is_grad_enabled():
            self.latest = None
        if latest is not None and latest[0] == self.find_state(graphs):
            return latest[1]
        x = graphs.scaled[:, self.columns]
        if self.options.devices:
            x = torch.cat([x, describe_units(graphs)], dim=1)
        of_graphs = torch.split(
            self.encoder(x, find_neighbours(graphs)), graphs.ptr.diff().tolist()
        )
        context = torch.stack([h.mean(dim=0) for h in of_graphs])
        pairs = zip(of_graphs, context, strict=True)
        return torch.cat([self.attention(h, of_graph) for h, of_graph in pairs]), context

    def clear_caches(self) -> None:
        self.latest = None


@dataclass(frozen=True)
class GCNOptions:
    """Options of ``GCNPolicy``; saved models name them.

    Attributes:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        hidden: Width of embeddings.
        layers: Number of graph convolutions.
    """

    features: Sequence[str] = tuple(FEATURES)
    hidden: int = 64
    layers: int = 2


class GCNPolicy(UnitPolicy, ActorCriticPolicy):
    """Two graph convolutions, then a device for each unit: the baseline for GO's attention.

    Takes the options of ``GCNOptions`` and the arguments of ``UnitPolicy``.
    """

    Options = GCNOptions
    options: GCNOptions

    def build(self) -> None:
        hidden = self.options.hidden
        self.encoder = Encoder(self.options.features, hidden, self.options.layers)
        self.head = nn.Linear(hidden, self.n_devices)
        self.critic = make_perceptron(hidden, GCN_CRITIC_HIDDEN, 1) if self.has_critic else None

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        graphs, row = self.graphs.batch(observation)
        h = self.encoder(graphs)
        logits = graphs.pad(self.head(h))
        devices = UnitCategorical(logits, graphs.node_mask, None, graphs.allowed_slots, row)
        if self.critic is None:
            return Decision(devices)
        return Decision(devices, self.critic(scatter(h, graphs.batch, reduce="mean"))[row])
