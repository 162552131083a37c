"""The simplest network of this kind: two graph convolutions and a softmax for each unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn

from agents.common.distribution import UnitCategorical
from agents.common.encoder import Encoder
from agents.common.graph_policy import make_perceptron
from agents.common.graphs import TensorDict
from agents.common.policy import Decision, UnitPolicy
from agents.common.pyg import global_mean_pool
from placement_gym.envs.observation import FEATURES

CRITIC_HIDDEN = 64


class GCNPolicy(UnitPolicy, ActorCriticPolicy):
    """Two graph convolutions, then a device for each unit: what attention has to beat.

    Args:
        args: See ``UnitPolicy``.
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        hidden: Width of embeddings.
        layers: Graph convolutions.
        kwargs: See ``UnitPolicy``.

    Raises:
        UserError: See ``UnitPolicy``; or unknown features.
    """

    def __init__(
        self,
        *args: Any,
        features: Sequence[str] = tuple(FEATURES),
        hidden: int = 64,
        layers: int = 2,
        **kwargs: Any,
    ) -> None:
        self.options: dict[str, Any] = {
            "features": tuple(features),
            "hidden": hidden,
            "layers": layers,
        }
        super().__init__(*args, **kwargs)

    def build(self) -> None:
        """Make the networks."""
        self.encoder = Encoder(**self.options)
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

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | self.options
