"""HSDAG as an SB3 policy: from graphs to a distribution of groups and devices.

In rollouts a dominant edge is kept with a probability that its score raises; the paper keeps all.
The likelihood of a placement then includes that of its groups, and the scores get a gradient.
"""

from __future__ import annotations

from copy import copy
from dataclasses import asdict
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from agents.common import (
    Decision,
    GraphBatch,
    PlacementMemory,
    TensorDict,
    UnitCategorical,
    UnitPolicy,
    scatter,
)
from agents.hsdag.groups import RolloutGroups, States, group_nodes, number_over_all
from agents.hsdag.networks import HSDAGOptions, Networks
from placement_gym.base import check_choice
from placement_gym.envs import FEATURES

ALL_LEVELS = 64
"""Levels after which nothing is left to merge, as each at least halves the groups that can."""
STEPS = 2**20
"""Steps of an episode, at most: keys of placements are ``graph_id * STEPS`` plus the step."""
OPTIONS = {
    "paper": HSDAGOptions(),
    "rl": HSDAGOptions(
        features=tuple(FEATURES),
        directed=True,
        depth=ALL_LEVELS,
        groups=30.0,
        refine=200.0,
        cost_weight=2.0,
    ),
}
"""By preset. ``numbers.csv`` has the source of each number."""


class GroupedDevices(UnitCategorical):
    """Devices of groups that were drawn, and the likelihood of both."""

    log_keep: Tensor  # (B,) log-likelihood of the groups
    keep_entropy: Tensor  # (B,) entropy of the choice of groups

    def log_prob(self, actions: Tensor) -> Tensor:
        return super().log_prob(actions) + self.log_keep

    def entropy(self) -> Tensor:
        return super().entropy() + self.keep_entropy


class SampledGroups:
    """A ``DeviceDistribution`` of groups and of their devices, for B rows of S states.

    Args:
        networks: Those of the policy.
        graphs: The graphs of the states.
        states: The states.
        z: (S * N, hidden) embeddings of the states' units.
        row: (B,) state of each row.
        keys: (B,) keys of the states in ``memory``.
        memory: The edges that were kept for each placement, by which its likelihood is computed.
    """

    def __init__(
        self,
        networks: Networks,
        graphs: GraphBatch,
        states: States,
        z: Tensor,
        row: Tensor,
        keys: Tensor,
        memory: PlacementMemory,
    ) -> None:
        self.networks, self.graphs, self.states, self.z = networks, graphs, states, z
        self.row, self.keys, self.memory = row, keys, memory
        # (S, N) logits of keeping each dominant edge, padded: a forest has fewer edges than nodes
        n_slots = graphs.node_mask.shape[1]
        trees = [step.tree for step in states.steps]
        counts = [tree.shape[1] for tree in trees]
        ends = number_over_all(trees, n_slots)
        scores = torch.split(networks.score_edges(z, ends), counts)
        padded = [pad(score, (0, n_slots - len(score))) for score in scores]
        self.logits = torch.stack(padded) + states.prior[:, None]
        self.valid = torch.arange(n_slots, device=z.device) < row.new_tensor(counts)[:, None]
        self.mask: Tensor | None = None
        self.last: tuple[Tensor, GroupedDevices] | None = None

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, N) sampled devices, or the most likely ones of the most likely groups."""
        likely = self.logits.detach().sigmoid()[self.row]
        keep = likely > (0.5 if deterministic else torch.rand_like(likely))
        devices = self.place_groups(keep)
        actions = devices.get_actions(deterministic)
        self.memory.keep(self.keys, actions, keep)
        self.last = keep, devices
        return actions

    def conditioned_on(self, actions: Tensor) -> GroupedDevices:
        """The likelihood of (B, N) devices and of their groups, single units if unknown."""
        single = torch.zeros_like(self.logits[self.row], dtype=torch.bool)
        keep = self.memory.recall(self.keys, actions, single)
        if self.last is not None and torch.equal(self.last[0], keep):
            return self.last[1]
        return self.place_groups(keep)

    def place_groups(self, keep: Tensor) -> GroupedDevices:
        """The devices of the groups that (B, N) bool kept edges connect."""
        logits, valid = self.logits[self.row], self.valid[self.row]
        # rows of one state with the same kept edges have the same groups, which are placed once
        groupings = torch.cat([self.row[:, None], (keep & valid).long()], dim=1)
        distinct, row = torch.unique(groupings, dim=0, return_inverse=True)
        which, kept = distinct[:, 0], distinct[:, 1:].bool()
        trees = [self.states.steps[state].tree for state in which.tolist()]
        forests = [tree[:, k[: tree.shape[1]]] for tree, k in zip(trees, kept, strict=True)]
        groups = group_nodes(self.graphs, self.states, which.tolist(), forests)
        z = self.z.view(*self.states.mask.shape, -1).index_select(0, which)
        costs = self.states.costs[which]
        scores = self.networks(z, costs, groups)
        devices = GroupedDevices(scores, groups.decides, groups.leader, groups.allowed, row)
        if self.mask is not None:
            devices = devices.restricted_to(self.mask)
        # edges are kept independently: log-probabilities add up
        likely = logsigmoid(torch.where(keep, logits, -logits))
        devices.log_keep = (likely * valid).sum(dim=1)
        share = logits.sigmoid()
        each = share * logsigmoid(logits) + (1.0 - share) * logsigmoid(-logits)
        devices.keep_entropy = -(each * valid).sum(dim=1)
        return devices

    def restricted_to(self, allowed: Tensor) -> SampledGroups:
        part = copy(self)
        part.mask, part.last = allowed, None
        return part


class HSDAGPolicy(UnitPolicy, ActorCriticPolicy):
    """Learns which units to place together, and where (HSDAG, Duan et al. 2024).

    Args:
        args: See ``UnitPolicy``.
        preset: ``"rl"`` or ``"paper"``, a key of ``OPTIONS``.
        kwargs: Arguments of ``UnitPolicy``, and attributes of ``HSDAGOptions`` that override the
            preset.
    """

    Options = HSDAGOptions
    options: HSDAGOptions
    rollout: RolloutGroups
    greedy: RolloutGroups
    drawn: Tensor
    """Placements drawn in rollouts so far."""

    def __init__(self, *args: Any, preset: str = "rl", **kwargs: Any) -> None:
        check_choice("preset", preset, OPTIONS)
        super().__init__(*args, **{**asdict(OPTIONS[preset]), **kwargs})

    def build(self) -> None:
        self.networks = Networks(self.options, self.n_devices, self.has_critic)
        self.register_buffer("drawn", torch.zeros(()))
        self.clear_caches()

    def clear_caches(self) -> None:
        drawn = float(self.drawn)
        self.rollout = RolloutGroups(self.networks, self.options, sampling=True, drawn=drawn)
        self.greedy = RolloutGroups(self.networks, self.options, sampling=False, drawn=drawn)
        self.memory = PlacementMemory()

    def clear_stale_caches(self) -> None:
        if self.rollout.stale:
            self.clear_caches()

    def forward(self, obs: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; counts the placements."""
        outputs = super().forward(obs, *args, **kwargs)
        self.drawn += len(outputs[0])
        return outputs

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``; comments number the steps of the README."""
        # 1: the graphs of the observations with the features of their units
        graphs, row_graph = self.graphs.batch(observation)
        # rows of one graph and step share their embeddings and dominant edges
        spaces: Any = self.observation_space
        steps = spaces["step"].read(observation["step"]).flatten()
        distinct, row = torch.unique(torch.stack([row_graph, steps]), dim=1, return_inverse=True)
        keys = tuple((graphs.ids[graph], step) for graph, step in distinct.T.tolist())
        # 2, 3: embeddings, edge scores and dominant edges, which stay the same in a rollout
        rollout = self.greedy if greedy else self.rollout
        states = rollout.find_states(graphs, keys)
        z = rollout.encode(graphs, states)
        values = None
        if self.networks.critic is not None:
            state = states.mask.nonzero()[:, 0]
            means = scatter(z[states.mask.flatten()], state, reduce="mean")
            values = self.networks.critic(means)[row]
        # 4: one choice of a device for each group; step 5 is that of the algorithm
        if self.options.groups and self.options.depth:
            numbers = row.new_tensor([graph * STEPS + step for graph, step in keys])[row]
            drawn = SampledGroups(self.networks, graphs, states, z, row, numbers, self.memory)
            return Decision(drawn, values)
        trees = [step.tree for step in states.steps]
        groups = group_nodes(graphs, states, range(len(trees)), trees)
        logits = self.networks(z.view(*states.mask.shape, -1), states.costs, groups)
        devices = UnitCategorical(logits, groups.decides, groups.leader, groups.allowed, row)
        return Decision(devices, values)
