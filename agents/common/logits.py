"""A table of logits as a policy: the simplest one that learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from agents.common.distribution import UnitCategorical
from agents.common.following import FOLLOWING_STEP, FollowingDevices, first_keep
from agents.common.graphs import MIN_COST, TensorDict
from agents.common.policy import Decision, UnitPolicy
from agents.common.runs import RunTable
from placement_gym.base.errors import UserError


@dataclass(frozen=True)
class LogitsOptions:
    """Options of ``LogitsPolicy``; saved models name them.

    Attributes:
        runs: Whether runs of units of every size have logits, too, see ``RunTable``.
        groups: Expected number of groups before learning. Each unit takes the device of its latest
            producer or chooses its own, and the policy learns which units follow. 0: all units
            choose.
        cost_weight: Weight of the logarithm of units' times in the initial logits.
    """

    runs: bool = False
    groups: int = 0
    cost_weight: float = 0.0


class LogitsPolicy(UnitPolicy, ActorCriticPolicy):
    """A softmax over the devices for each unit, independent of the observation.

    Takes the options of ``LogitsOptions`` and the arguments of ``UnitPolicy``, but ``critic``, as
    there is none.

    Raises:
        ValueError: See ``UnitPolicy``; or observations are of several graphs.
    """

    Options = LogitsOptions
    options: LogitsOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "critic": False})

    def build(self) -> None:
        """Make the tables, with uniform probabilities or a preference for fast devices."""
        self.logits = nn.Parameter(self.first_logits())
        self.of_runs = RunTable(self.n_slots, self.n_devices) if self.options.runs else None
        follow = RunTable(self.n_slots, 1, smallest=1, step=FOLLOWING_STEP)
        self.keep = follow if self.options.groups else None

    @classmethod
    def reads_devices(cls, options: Mapping[str, Any]) -> bool | None:
        """See ``GraphPolicy``: first logits are made of times."""
        return True if options.get("cost_weight") else None

    @property
    def draws_groups(self) -> bool:
        """See ``UnitPolicy``."""
        return self.options.groups > 0

    def first_logits(self) -> Tensor:
        """(N, D) logits before learning.

        Raises:
            UserError: Times are needed, and the policy has none.
        """
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

    def unit_logits(self) -> Tensor:
        """(N, D) logits of the units' own choices."""
        return self.logits if self.of_runs is None else self.logits + self.of_runs()

    @torch.no_grad()
    def set_unit_logits(self, logits: Tensor) -> None:
        """Make (N, D) logits those of the units' own choices."""
        self.logits.add_(logits - self.unit_logits())

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graph, mask = observation["graph_id"].flatten(), observation["node_mask"].bool()
        if (graph != graph[0]).any():
            raise UserError("a table of logits holds one graph: use environments of one graph only")
        row = torch.zeros_like(graph).long()
        values = torch.zeros(len(graph), 1, device=graph.device)
        logits, allowed = self.unit_logits()[None], self.allowed(observation)
        if self.keep is None:
            return Decision(UnitCategorical(logits, mask[:1], None, allowed, row), values)
        keep = first_keep(mask[:1].sum(), self.options.groups) + self.keep()[None, :, 0]
        leader = self.graphs.batch(observation)[0].leader_slots
        devices = FollowingDevices(logits, keep, leader, mask[:1], allowed, row)
        return Decision(devices, values)

    def allowed(self, observation: TensorDict) -> Tensor | None:
        """(1, N, D) bool, allowed devices of each unit; None if all are allowed or unknown."""
        return None if self.table is None else self.graphs.batch(observation)[0].allowed_slots

    def uniform_probabilities(self, observation: TensorDict) -> Tensor:
        """(N, D) probabilities of a uniform choice among the allowed devices."""
        allowed = self.allowed(observation)
        share = torch.ones_like(self.logits) if allowed is None else allowed[0].float()
        return share / share.sum(dim=1, keepdim=True)
