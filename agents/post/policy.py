"""Post's policy: a table of logits."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from agents.common.distribution import UnitCategorical
from agents.common.graphs import TensorDict
from agents.common.policy import Decision, UnitPolicy
from placement_gym.errors import UserError


class LogitsPolicy(UnitPolicy, ActorCriticPolicy):
    """A softmax over the devices for each unit, independent of the observation.

    Takes the arguments of ``UnitPolicy``; there is no critic.

    Raises:
        ValueError: See ``UnitPolicy``; or observations are of several graphs.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "critic": False})

    def build(self) -> None:
        """Make the table of logits, with uniform probabilities."""
        self.logits = nn.Parameter(torch.zeros(self.n_slots, self.n_devices))

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        ids, mask = observation["graph_id"], observation["node_mask"].bool()
        if (ids != ids[0]).any():
            raise UserError(
                "Post learns the placement of one graph: use environments of one graph only"
            )
        row = torch.zeros(len(ids), dtype=torch.int64, device=ids.device)
        allowed = self.allowed(observation)
        devices = UnitCategorical(self.logits[None], mask[:1], None, allowed, row)
        return Decision(devices, torch.zeros(len(ids), 1, device=ids.device))

    def allowed(self, observation: TensorDict) -> Tensor | None:
        """(1, N, D) bool, allowed devices of each unit; None if all are allowed or unknown."""
        return None if self.table is None else self.graphs.batch(observation)[0].allowed_slots

    def uniform_probabilities(self, observation: TensorDict) -> Tensor:
        """(N, D) probabilities of a uniform choice among the allowed devices."""
        allowed = self.allowed(observation)
        share = torch.ones_like(self.logits) if allowed is None else allowed[0].float()
        return share / share.sum(dim=1, keepdim=True)
