"""Plain REINFORCE on a table of logits, the least that a learned agent should beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from agents.common import (
    MIN_COST,
    Decision,
    LearnedAgent,
    TensorDict,
    UnitCategorical,
    UnitPolicy,
    make_preset,
)
from placement_gym.base import UserError
from placement_gym.envs import read_graph_id

__all__ = ["LogitsOptions", "LogitsPolicy", "make"]


@dataclass(frozen=True)
class LogitsOptions:
    """Options of ``LogitsPolicy``; saved models name them.

    Attributes:
        cost_weight: Weight of the logarithm of units' times in the initial logits.
    """

    cost_weight: float = 0.0


class LogitsPolicy(UnitPolicy, ActorCriticPolicy):
    """A softmax over the devices for each unit of one graph, independent of the observation.

    Takes the options of ``LogitsOptions`` and the arguments of ``UnitPolicy``; it has no critic.
    """

    Options = LogitsOptions
    options: LogitsOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "critic": False})

    def build(self) -> None:
        self.logits = nn.Parameter(self.first_logits())

    @classmethod
    def reads_devices(cls, options: Mapping[str, Any]) -> bool | None:
        return True if options.get("cost_weight") else None

    def first_logits(self) -> Tensor:
        """(N, D) logits before learning: uniform, or with a preference for fast devices."""
        if not self.options.cost_weight:
            return torch.zeros(self.n_slots, self.n_devices)
        tables = list((self.table or {}).values())
        if len(tables) != 1 or "unit_ms" not in tables[0]:
            raise UserError(
                "cost_weight needs the times of one graph: pass policy_kwargs={'graphs': "
                "env.unwrapped.graph_table(devices=True)}"
            )
        times = torch.as_tensor(tables[0]["unit_ms"])
        return -self.options.cost_weight * (times + MIN_COST).log()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        graph, mask = read_graph_id(observation).flatten(), observation["node_mask"].bool()
        if (graph != graph[0]).any():
            raise UserError("a table of logits holds one graph: use environments of one graph only")
        row = torch.zeros_like(graph)
        allowed = self.allowed(observation)
        return Decision(UnitCategorical(self.logits[None], mask[:1], None, allowed, row))

    def allowed(self, observation: TensorDict) -> Tensor | None:
        """(1, N, D) bool, allowed devices of each unit; None if all are allowed or unknown."""
        return None if self.table is None else self.graphs.batch(observation)[0].allowed_slots

    def uniform_probabilities(self, observation: TensorDict) -> Tensor:
        """(N, D) probabilities of a uniform choice among the allowed devices."""
        allowed = self.allowed(observation)
        share = torch.ones_like(self.logits) if allowed is None else allowed[0].float()
        return share / share.sum(dim=1, keepdim=True)


make = LearnedAgent(LogitsPolicy, {"rl": make_preset(LogitsOptions(), 0.1)})
"""Makes REINFORCE with ``LogitsPolicy``; see ``agents.common.make.LearnedAgent``."""
