"""Graph groups as an SB3 policy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn
from torch.nn import functional

from agents.common import (
    COLUMNS,
    COST,
    MAX_ENTRIES,
    MIN_COST,
    Decision,
    Encoder,
    GraphBatch,
    TensorDict,
    UnitPolicy,
    describe_units_on_devices,
    first_keep,
    make_perceptron,
    scatter,
)
from agents.graph_groups.following import FollowingDevices
from agents.graph_groups.tables import Tables
from placement_gym.base import check_integer

WINDOW = "window"
"""Name in a rollout's observations of the (N,) bool units whose devices were drawn."""


@dataclass(frozen=True)
class GraphGroupsOptions:
    """Options of ``GraphGroupsPolicy``, given as ``policy_kwargs``; saved models name them.

    Attributes:
        hidden: Width of an embedding.
        layers: Number of graph convolutions; 0 ignores the edges.
        cost_weight: Initial weight of the logarithm of a unit's time on a device in the logits.
        groups: Approximate number of groups in the first placements.
        devices: Whether the policy also reads limits, transfers and times on one scale, as it needs
            to for several problems; see ``agents.common.devices``.
    """

    hidden: int = 128
    layers: int = 2
    cost_weight: float = 2.0
    groups: int = 30
    devices: bool = False


class GraphGroupsPolicy(UnitPolicy, ActorCriticPolicy):
    """Draws with each placement which units follow their latest producer, and devices of others."""

    Options = GraphGroupsOptions
    options: GraphGroupsOptions
    redraws: Any = None
    """The ``Redraws`` of this rollout; None draws whole placements."""

    def build(self) -> None:
        options, hidden = self.options, self.options.hidden
        check_integer("groups", options.groups, 1)
        further = len(COLUMNS) * self.n_devices * options.devices
        self.encoder = Encoder(hidden=hidden, layers=options.layers, further=further)
        self.scorer = make_perceptron(hidden, hidden, 1)
        self.placer = make_perceptron(hidden, hidden, self.n_devices)
        self.critic = make_perceptron(hidden, hidden, 1) if self.has_critic else None
        weight = nn.Parameter(torch.tensor(float(options.cost_weight)))
        self.cost_weight = weight if options.cost_weight else None
        # the networks are for all graphs, each table for one that is known
        self.tables = Tables(self.table or {}, self.n_slots, self.n_devices)

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; with ``redraws`` only the units of windows are drawn."""
        if self.redraws is None or deterministic:
            return super().forward(obs, deterministic, action_masks)
        # Units outside the windows were not drawn, and the gradient of their likelihood would be
        # noise.
        distribution, values = self.decide_within(obs, action_masks)
        actions, window = self.redraws.draw(obs, distribution)
        assert isinstance(distribution, FollowingDevices)
        return actions, values, distribution.within(window, actions).log_prob(actions)

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; of the units in windows if only these were drawn."""
        if WINDOW not in obs:
            return super().evaluate_actions(obs, actions, action_masks)
        distribution, values = self.decide_within(obs, action_masks)
        assert isinstance(distribution, FollowingDevices)
        likelihood = distribution.within(obs[WINDOW].bool(), actions)
        return values, likelihood.log_prob(actions), likelihood.entropy()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        graphs, row = self.graphs.batch(observation)
        seen = describe_units_on_devices(graphs).flatten(1) if self.options.devices else None
        z: Tensor = self.encoder(graphs, further=seen)
        z = functional.layer_norm(z, z.shape[1:])
        # each unit's own choice, which begins with a preference for fast devices
        own: Tensor = self.placer(z)
        if self.cost_weight is not None:
            times = graphs.x[:, COST.start : COST.start + self.n_devices]
            own = own - self.cost_weight * (times + MIN_COST).log()
        # whether it follows its leader instead
        n_units = graphs.node_mask.sum(dim=1)[graphs.batch]
        follows = self.scorer(z[find_leaders(graphs)] * z)
        keep = first_keep(n_units, self.options.groups)[:, None] + follows
        # tables correct what the networks say of known graphs
        own = self.tables.correct(graphs.pad(own), graphs.ids)
        keep = self.tables.correct(graphs.pad(keep), graphs.ids, "keep")[..., 0]
        mask, allowed = graphs.node_mask, graphs.allowed_slots
        devices = FollowingDevices(own, keep, find_leader_slots(graphs), mask, allowed, row)
        if self.critic is None:
            return Decision(devices)
        return Decision(devices, self.critic(scatter(z, graphs.batch, reduce="mean"))[row])


@lru_cache(maxsize=MAX_ENTRIES)
def find_leaders(graphs: GraphBatch) -> Tensor:
    """(n,) the last of each node's producers before it; itself if there is none."""
    source, target = graphs.edge_index
    # A leader must come before its followers. Units that form cycles are numbered by their first
    # operators, so some of their edges go backwards.
    is_forward = source < target
    nodes = torch.arange(len(graphs.x), device=source.device)
    latest = torch.full_like(nodes, -1)
    latest.scatter_reduce_(0, target[is_forward], source[is_forward], "amax")
    return torch.where(latest < 0, nodes, latest)


@lru_cache(maxsize=MAX_ENTRIES)
def find_leader_slots(graphs: GraphBatch) -> Tensor:
    """(G, N) ``find_leaders`` of padded units; padding leads itself."""
    slots = torch.arange(graphs.node_mask.shape[1], device=graphs.x.device)
    leader = slots.repeat(len(graphs.node_mask), 1)
    leader[graphs.node_mask] = find_leaders(graphs) - graphs.ptr[graphs.batch]
    return leader
