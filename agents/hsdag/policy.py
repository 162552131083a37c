"""HSDAG as an SB3 policy: its decisions, from graphs to a distribution of devices."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from agents.common.distribution import UnitCategorical
from agents.common.following import FollowingDevices
from agents.common.graphs import GraphBatch, TensorDict
from agents.common.policy import Decision, UnitPolicy
from agents.common.tables import Tables
from agents.hsdag.networks import HSDAGOptions, Networks
from agents.hsdag.rollout import Rollout
from placement_gym.base.arguments import check_integer
from placement_gym.base.errors import unknown_name
from placement_gym.envs.observation import FEATURES

PAPER_FEATURES = (
    "type",
    "shape",
    "in_degree",
    "out_degree",
    "fractal_dimension",
    "position",
)
"""The six blocks of the paper's section 2.3."""
PRESETS = {
    "rl": HSDAGOptions(features=tuple(FEATURES), cost_weight=2.0, groups=30, table=True),
    "paper": HSDAGOptions(features=PAPER_FEATURES, directed=False),
}


class HSDAGPolicy(UnitPolicy, ActorCriticPolicy):
    """Learns which units to place together, and where (HSDAG, Duan et al. 2024).

    Groups are drawn with each placement, or parsed in rollouts and in prediction
    (``preset="paper"``).

    Args:
        args: See ``UnitPolicy``.
        preset: ``"rl"`` or ``"paper"``.
        kwargs: Attributes of ``HSDAGOptions`` that override the preset, and what ``UnitPolicy``
            takes.

    Raises:
        UserError: Unknown option, or one is out of range.
    """

    Options = HSDAGOptions
    options: HSDAGOptions
    rollout: Rollout
    greedy: Rollout

    def __init__(self, *args: Any, preset: str = "rl", **kwargs: Any) -> None:
        if preset not in PRESETS:
            raise unknown_name("preset", preset, PRESETS)
        super().__init__(*args, **{**asdict(PRESETS[preset]), **kwargs})

    def build(self) -> None:
        """Make the networks, and a table for each graph that is known."""
        check_integer("groups", self.options.groups, 0)
        self.networks = Networks(self.options, self.n_devices, self.has_critic)
        graphs = (self.table or {}) if self.options.table and self.options.groups else {}
        self.tables = Tables(graphs, self.n_slots, self.n_devices, following=True)
        self.clear_caches()

    @property
    def draws_groups(self) -> bool:
        """See ``UnitPolicy``."""
        return self.options.groups > 0

    def clear_caches(self) -> None:
        """Drop groups and embeddings."""
        self.rollout = Rollout(self.networks, self.options, sampling=True)
        self.greedy = Rollout(self.networks, self.options, sampling=False)

    def clear_stale_caches(self) -> None:
        """Drop groups and embeddings if the weights have changed."""
        if self.rollout.stale:
            self.clear_caches()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        # 1, 2: the graphs of the observations with the features of their units
        graphs, row_graph = self.graphs.batch(observation)
        rollout = self.greedy if greedy else self.rollout
        if self.options.groups:
            return self.draw_groups(graphs, rollout.encode(graphs), row_graph)
        # rows of one graph and step share their groups
        pairs = torch.stack([row_graph, observation["step"].flatten().long()])
        distinct, row = torch.unique(pairs, dim=1, return_inverse=True)
        keys = tuple((graphs.ids[graph], step) for graph, step in distinct.T.tolist())
        # 3: embeddings, edge scores and groups, as they are throughout a rollout
        logits, values, states = rollout.evaluate(graphs, keys)
        # 4: one choice of a device for each group; step 5 is the algorithm's, as REINFORCE's
        devices = UnitCategorical(logits, states.decides, states.leader, states.allowed, row)
        return Decision(devices, values[row])

    def draw_groups(self, graphs: GraphBatch, z: Tensor, row: Tensor) -> Decision:
        """Steps 3 and 4 where groups are drawn: units follow their producers, or choose."""
        own, keep, values = self.networks.choose(z, graphs)
        own = self.tables.correct(own, graphs.ids)
        keep = self.tables.correct(keep[..., None], graphs.ids, "keep")[..., 0]
        mask, allowed = graphs.node_mask, graphs.allowed_slots
        devices = FollowingDevices(own, keep, graphs.leader_slots, mask, allowed, row)
        return Decision(devices, values[row])
