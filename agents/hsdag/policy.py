"""HSDAG as an SB3 policy: its decisions, from graphs to a distribution of devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule

from agents.common.distribution import UnitCategorical
from agents.common.graph_policy import check_options
from agents.common.graphs import TensorDict
from agents.common.policy import Decision, UnitPolicy
from agents.hsdag.networks import Networks, Options
from agents.hsdag.rollout import Rollout
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
    "rl": Options(features=tuple(FEATURES), cut=True, cost_weight=2.0),
    "paper": Options(features=PAPER_FEATURES, directed=False),
}


def make_options(preset: str, changes: Mapping[str, Any]) -> Options:
    """Make the options of a preset, with changes.

    Raises:
        UserError: Unknown preset.
    """
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    return replace(PRESETS[preset], **changes)


class HSDAGPolicy(UnitPolicy, ActorCriticPolicy):
    """Learns which units to place together, and where (HSDAG, Duan et al. 2024).

    Groups are parsed in rollouts and in prediction.

    Args:
        observation_space: See ``UnitPolicy``.
        action_space: See ``UnitPolicy``.
        lr_schedule: See ``UnitPolicy``.
        preset: ``"rl"`` or ``"paper"``.
        graphs: See ``UnitPolicy``.
        critic: See ``UnitPolicy``.
        use_sde: See ``UnitPolicy``.
        optimizer_class: See ``UnitPolicy``.
        optimizer_kwargs: See ``UnitPolicy``.
        changes: Attributes of ``Options`` that override the preset.

    Raises:
        UserError: Unknown option, or one is out of range.
    """

    rollout: Rollout
    greedy: Rollout

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.MultiDiscrete,
        lr_schedule: Schedule,
        preset: str = "rl",
        graphs: Any = None,
        critic: bool = True,
        use_sde: bool = False,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        check_options("HSDAGPolicy", changes, self.list_options())
        self.options = make_options(preset, changes)
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            graphs,
            critic,
            use_sde,
            optimizer_class,
            optimizer_kwargs,
        )

    @classmethod
    def list_options(cls) -> set[str]:
        """See ``GraphPolicy``; those of ``Options`` are among them."""
        return super().list_options() | {field.name for field in fields(Options)}

    def build(self) -> None:
        """Make the networks."""
        self.networks = Networks(self.options, self.n_devices, self.has_critic)
        self.clear_caches()

    def clear_caches(self) -> None:
        """Drop groups and embeddings."""
        self.rollout = Rollout(self.networks, self.options, sampling=True)
        self.greedy = Rollout(self.networks, self.options, sampling=False)

    def clear_stale_caches(self) -> None:
        """Drop groups and embeddings if the weights have changed."""
        if self.rollout.stale:
            self.clear_caches()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``; rows of one graph and step share their groups."""
        # 1, 2: the graphs of the observations with the features of their units
        graphs, row_graph = self.graphs.batch(observation)
        pairs = torch.stack([row_graph, observation["step"].flatten().long()])
        distinct, row = torch.unique(pairs, dim=1, return_inverse=True)
        keys = tuple((graphs.ids[graph], step) for graph, step in distinct.T.tolist())
        # 3: embeddings, edge scores and groups, as they are throughout a rollout
        rollout = self.greedy if greedy else self.rollout
        logits, values, states = rollout.evaluate(graphs, keys)
        # 4: one choice of a device for each group; step 5 is the algorithm's, as REINFORCE's
        devices = UnitCategorical(logits, states.decides, states.leader, states.allowed, row)
        return Decision(devices, values[row])

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | asdict(self.options)
