"""What all policies that read graphs have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from agents.common.graphs import Graphs

GraphTable = Mapping[int, Mapping[str, Any]]


class GraphPolicy:
    """Networks that read graphs, as an SB3 policy; mixed into ``ActorCriticPolicy`` or its like.

    A subclass makes its networks in ``build``.

    Args:
        observation_space: Of the environment.
        action_space: Of the environment.
        lr_schedule: Of the algorithm.
        graphs: Static graphs by ``graph_id``, as ``env.unwrapped.graph_table()`` gives them, for
            environments made with ``observe_graph=False``; they also say which device runs what.
        critic: Whether there is a critic; REINFORCE does without.
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
        """Know more graphs, so that environments of these can be placed too."""
        self.table = {**(self.table or {}), **graphs}
        self.graphs = Graphs(self.table)

    def obs_to_tensor(self: Any, observation: Any) -> tuple[dict[str, Tensor], bool]:
        """As SB3's; keys that the policy's environment did not have are left out."""
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


def perceptron(width: int, hidden: int, out: int, gain: float = 1.0) -> nn.Sequential:
    """Linear, LayerNorm, ReLU, linear; ``gain`` scales the last weights at the beginning."""
    last = nn.Linear(hidden, out)
    with torch.no_grad():
        last.weight *= gain
    return nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.ReLU(), last)
