"""The base of policies that read graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from agents.common.graphs import Graphs
from agents.common.trust import LoadsTrustedFiles
from placement_gym.errors import UserError

GraphTable = Mapping[int, Mapping[str, Any]]


class GraphPolicy(LoadsTrustedFiles):
    """A mixin for ``ActorCriticPolicy`` and its variants.

    Subclasses make their networks in ``build``.

    Args:
        observation_space: Observation space of the environment.
        action_space: Action space of the environment.
        lr_schedule: Learning rate schedule of the algorithm.
        graphs: Static graphs by ``graph_id``, as ``env.unwrapped.graph_table()`` returns them. They
            are needed by environments made with ``observe_graph=False``, and tell the policy which
            device supports which unit.
        critic: Whether to build a critic; REINFORCE needs one for ``baseline="critic"`` only.
        optimizer_class: As for SB3's policies.
        optimizer_kwargs: As for SB3's policies.
    """

    graphs: Graphs
    optimizer: torch.optim.Optimizer

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        graphs: GraphTable | None = None,
        critic: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.table, self.has_critic = graphs, critic
        super().__init__(  # type: ignore[call-arg]
            observation_space,
            action_space,
            lr_schedule,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )

    @abstractmethod
    def build(self) -> None:
        """Make the networks."""

    def _build(self: Any, lr_schedule: Schedule) -> None:
        self.graphs = Graphs(self.table)
        self.build()
        self.optimizer = self.optimizer_class(
            self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs
        )

    def add_graphs(self, graphs: GraphTable) -> None:
        """Add graphs, so that the policy can be used in environments of these."""
        self.table = {**(self.table or {}), **graphs}
        self.graphs = Graphs(self.table)

    def obs_to_tensor(self: Any, observation: Any) -> tuple[dict[str, Tensor], bool]:
        """See SB3; keys that are not in the policy's observation space are ignored.

        Raises:
            UserError: A key is missing.
        """
        missing = sorted(set(self.observation_space.spaces) - set(observation))
        if missing:
            raise UserError(
                f"the policy was made for observations with {missing}: make the environment with "
                "the arguments that it was trained with, as observe_graph=True or "
                "observe_devices=True"
            )
        known = {key: observation[key] for key in self.observation_space.spaces}
        return super().obs_to_tensor(known)  # type: ignore[misc]

    def _get_constructor_parameters(self: Any) -> dict[str, Any]:
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "lr_schedule": self._dummy_schedule,
            "graphs": self.table,
            "critic": self.has_critic,
            "optimizer_class": self.optimizer_class,
            "optimizer_kwargs": self.optimizer_kwargs,
        }


def make_perceptron(width: int, hidden: int, out: int, gain: float = 1.0) -> nn.Sequential:
    """Linear, LayerNorm, ReLU, linear; ``gain`` scales the initial weights of the last layer."""
    last = nn.Linear(hidden, out)
    with torch.no_grad():
        last.weight *= gain
    return nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.ReLU(), last)
