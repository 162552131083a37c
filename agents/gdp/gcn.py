"""The simplest network of this kind: two graph convolutions and a softmax for each unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn
from torch_geometric.nn import global_mean_pool

from agents.common.distribution import UnitCategorical
from agents.common.encoder import Encoder
from agents.common.graph_policy import GraphTable, make_perceptron
from agents.common.graphs import TensorDict
from agents.common.policy import Decision, UnitPolicy
from placement_gym.observation import FEATURES

CRITIC_HIDDEN = 64


class GCNPolicy(UnitPolicy, ActorCriticPolicy):
    """Two graph convolutions, then a device for each unit: what attention has to beat.

    Args:
        observation_space: See ``UnitPolicy``.
        action_space: See ``UnitPolicy``.
        lr_schedule: See ``UnitPolicy``.
        graphs: See ``UnitPolicy``.
        critic: See ``UnitPolicy``.
        features: Names of blocks in ``placement_gym.observation.FEATURES``.
        hidden: Width of embeddings.
        layers: Graph convolutions.
        use_sde: See ``UnitPolicy``.
        optimizer_class: See ``UnitPolicy``.
        optimizer_kwargs: See ``UnitPolicy``.

    Raises:
        ValueError: See ``UnitPolicy``; or unknown features.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.MultiDiscrete,
        lr_schedule: Schedule,
        graphs: GraphTable | None = None,
        critic: bool = True,
        features: Sequence[str] = tuple(FEATURES),
        hidden: int = 64,
        layers: int = 2,
        use_sde: bool = False,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.options: dict[str, Any] = {
            "features": tuple(features),
            "hidden": hidden,
            "layers": layers,
        }
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

    def build(self) -> None:
        """Make the networks."""
        self.encoder = Encoder(**self.options, joint_costs=True)
        hidden = self.options["hidden"]
        self.head = nn.Linear(hidden, self.n_devices)
        self.critic = make_perceptron(hidden, CRITIC_HIDDEN, 1) if self.has_critic else None

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row = self.graphs.batch(observation)
        h = self.encoder(graphs)
        logits = graphs.pad(self.head(h))
        devices = UnitCategorical(logits, graphs.node_mask, None, graphs.allowed_slots, row)
        if self.critic is None:
            return Decision(devices, h.new_zeros(len(row), 1))
        return Decision(devices, self.critic(global_mean_pool(h, graphs.batch))[row])

    def predict_values(self, obs: Any) -> Tensor:
        """(B, 1) expected returns; nothing is computed without a critic."""
        if self.critic is None:
            return torch.zeros(len(obs["graph_id"]), 1, device=obs["graph_id"].device)
        return self.decide(obs).values

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | self.options
