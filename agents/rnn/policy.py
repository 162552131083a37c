"""The RNN placer as an SB3 policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor

from agents.common.distribution import DeviceDistribution
from agents.common.graph_policy import GraphTable, make_perceptron
from agents.common.graphs import GraphBatch, TensorDict
from agents.common.policy import Decision, UnitPolicy
from agents.rnn.autoregressive import AutoregressiveDevices
from agents.rnn.networks import Seq2Seq
from agents.rnn.unit_features import UnitFeatures

PAPER_FEATURES = ("type", "shape")
CRITIC_HIDDEN = 128


class RNNPolicy(UnitPolicy, ActorCriticPolicy):
    """Places units one after another in topological order (Mirhoseini et al. 2017, "ColocRL").

    Args:
        observation_space: See ``UnitPolicy``.
        action_space: See ``UnitPolicy``.
        lr_schedule: See ``UnitPolicy``.
        graphs: See ``UnitPolicy``.
        critic: See ``UnitPolicy``.
        features: Names of blocks in ``placement_gym.observation.FEATURES``.
        hidden: Width of the encoder's LSTM in each direction.
        decoder: Width of the decoder's LSTM.
        attention: Width of queries and keys.
        segment: Units per attention window; see ``Seq2Seq``.
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
        features: Sequence[str] = PAPER_FEATURES,
        hidden: int = 256,
        decoder: int = 512,
        attention: int = 64,
        segment: int = 128,
        use_sde: bool = False,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.features = features
        self.sizes = {
            "hidden": hidden,
            "decoder": decoder,
            "attention": attention,
            "segment": segment,
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
        self.units = UnitFeatures(self.features)
        self.critic = (
            make_perceptron(self.units.width, CRITIC_HIDDEN, 1) if self.has_critic else None
        )
        self.network = Seq2Seq(self.units.width, self.n_devices, **self.sizes)

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row = self.graphs.batch(observation)
        units = self.units(graphs)
        return Decision(
            self.distribution(units, graphs, row), self.compute_values(units, graphs)[row]
        )

    def distribution(self, units: Tensor, graphs: GraphBatch, row: Tensor) -> DeviceDistribution:
        """The distribution of the devices of B rows, each about one of G graphs.

        Args:
            units: (G, N, width) unit features.
            graphs: The G graphs.
            row: (B,) graph of each row.
        """
        encoded = self.network.encode(units, graphs.node_mask, row)
        allowed = graphs.allowed_slots
        allowed = None if allowed is None else allowed[row]
        return AutoregressiveDevices(self.network, encoded, graphs.node_mask[row], allowed)

    def compute_values(self, units: Tensor, graphs: GraphBatch) -> Tensor:
        """(G, 1) expected returns, zero without a critic."""
        if self.critic is None:
            return units.new_zeros(len(units), 1)
        values: Tensor = self.critic(units.sum(dim=1) / graphs.node_mask.sum(dim=1, keepdim=True))
        return values

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"features": self.features, **self.sizes}
