"""HSDAG as an SB3 policy: its decisions, from graphs to a distribution of devices."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from agents.common.distribution import PlacementMemory, UnitCategorical
from agents.common.graphs import TensorDict
from agents.common.policy import Decision, UnitPolicy
from agents.hsdag.groups import Rollout, group_nodes
from agents.hsdag.networks import HSDAGOptions, Networks
from agents.hsdag.sampled_groups import STEPS, SampledGroups
from placement_gym.base.errors import unknown_name
from placement_gym.envs.observation import FEATURES

ALL_LEVELS = 64
"""Levels after which nothing is left to merge: each at least halves the groups that can."""
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
"""Of each preset: the paper's, and ours. The README's table gives the source of each number."""


class HSDAGPolicy(UnitPolicy, ActorCriticPolicy):
    """Learns which units to place together, and where (HSDAG, Duan et al. 2024).

    Every preset parses the graph, pools groups and places them, in rollouts and in prediction.

    Args:
        args: See ``UnitPolicy``.
        preset: ``"rl"`` or ``"paper"``, a key of ``OPTIONS``.
        kwargs: Attributes of ``HSDAGOptions`` that override the preset, and what ``UnitPolicy``
            takes.

    Raises:
        UserError: Unknown option, or one is out of range.
    """

    Options = HSDAGOptions
    options: HSDAGOptions
    rollout: Rollout
    greedy: Rollout
    drawn: Tensor
    """Placements drawn in rollouts so far."""

    def __init__(self, *args: Any, preset: str = "rl", **kwargs: Any) -> None:
        if preset not in OPTIONS:
            raise unknown_name("preset", preset, OPTIONS)
        super().__init__(*args, **{**asdict(OPTIONS[preset]), **kwargs})

    def build(self) -> None:
        """Make the networks."""
        self.networks = Networks(self.options, self.n_devices, self.has_critic)
        self.register_buffer("drawn", torch.zeros(()))
        self.clear_caches()

    def clear_caches(self) -> None:
        """Drop groups and embeddings."""
        drawn = float(self.drawn)
        self.rollout = Rollout(self.networks, self.options, sampling=True, drawn=drawn)
        self.greedy = Rollout(self.networks, self.options, sampling=False, drawn=drawn)
        self.memory = PlacementMemory()

    def clear_stale_caches(self) -> None:
        """Drop groups and embeddings if the weights have changed."""
        if self.rollout.stale:
            self.clear_caches()

    def forward(self, obs: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; counts the placements."""
        outputs = super().forward(obs, *args, **kwargs)
        self.drawn += len(outputs[0])
        return outputs

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        # 1, 2: the graphs of the observations with the features of their units
        graphs, row_graph = self.graphs.batch(observation)
        # rows of one graph and step share their embeddings and dominant edges
        spaces: Any = self.observation_space
        steps = spaces["step"].read(observation["step"]).flatten()
        pairs = torch.stack([row_graph, steps])
        distinct, row = torch.unique(pairs, dim=1, return_inverse=True)
        keys = tuple((graphs.ids[graph], step) for graph, step in distinct.T.tolist())
        # 3: embeddings, edge scores and dominant edges, as they are throughout a rollout
        rollout = self.greedy if greedy else self.rollout
        states = rollout.find_states(graphs, keys)
        z = rollout.encode(graphs, states)
        values = self.networks.compute_values(z, states.state)[row]
        # 4: one choice of a device for each group; step 5 is the algorithm's, as REINFORCE's
        if self.options.groups and self.options.depth:
            places = row.new_tensor([graph * STEPS + step for graph, step in keys])[row]
            scene = (self.networks, graphs, states, z, row, places, self.memory)
            return Decision(SampledGroups(*scene), values)
        trees = [step.tree for step in states.steps]
        groups = group_nodes(graphs, states, range(len(trees)), trees)
        logits = self.networks(z, states.costs, groups)
        devices = UnitCategorical(logits, groups.decides, groups.leader, groups.allowed, row)
        return Decision(devices, values)
