"""Post's policy: a table of logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from agents.common.distribution import PlacementMemory, UnitCategorical, intersect_followers
from agents.common.graphs import MIN_COST, TensorDict
from agents.common.policy import Decision, UnitPolicy
from placement_gym.base.errors import UserError


@dataclass(frozen=True)
class LogitsOptions:
    """Options of ``LogitsPolicy``; saved models name them. The paper has the table alone.

    Attributes:
        runs: Whether one device is sampled for each run of units, by the mean of their logits.
            Every placement cuts the units in its own way, into few runs or many. Latencies after
            200 placements are 10.6 +- 4.4 % lower (five generated problems, three seeds).
        cost_weight: Weight of the logarithm of units' times in the first logits.
    """

    runs: bool = False
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
    groupings: Tensor | None = None
    """The way to cut of each row, where these are known."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "critic": False})

    def build(self) -> None:
        """Make the table of logits, with uniform probabilities or a preference for fast devices."""
        self.logits = nn.Parameter(self.first_logits())
        self.clear_caches()

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
                "cost_weight needs the times of one graph: give policy_kwargs={'graphs': "
                "env.unwrapped.graph_table(devices=True)}"
            )
        times = torch.as_tensor(tables[0]["unit_ms"])
        return -self.options.cost_weight * (times + MIN_COST).log()

    def explain_trpo_refusal(self, distribution: Any) -> str:
        """See ``GraphPolicy``."""
        if self.options.runs:
            return "runs of units are drawn with each placement"
        return super().explain_trpo_refusal(distribution)

    def clear_caches(self) -> None:
        """Forget the runs of sampled placements; a new rollout begins."""
        self.leaders: list[Tensor] = []
        self.grouping_memory = PlacementMemory()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        ids, mask = observation["graph_id"], observation["node_mask"].bool()
        if (ids != ids[0]).any():
            raise UserError(
                "Post learns the placement of one graph: use environments of one graph only"
            )
        row = torch.zeros(len(ids), dtype=torch.int64, device=ids.device)
        runs = self.options.runs and not greedy
        if runs and self.groupings is not None:
            row = self.groupings
        devices = self.distribution(observation, mask[:1], row, runs)
        return Decision(devices, torch.zeros(len(ids), 1, device=ids.device))

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; with ``runs`` every row has its own."""
        if deterministic or not self.options.runs:
            return super().forward(obs, deterministic, action_masks)
        rows = torch.arange(len(obs["graph_id"]), device=obs["graph_id"].device)
        self.groupings = rows + len(self.leaders)
        actions, values, _ = super().forward(obs, deterministic, action_masks)
        self.grouping_memory.keep(obs["graph_id"], actions, self.groupings)
        _, log_prob, _ = self.evaluate_actions(obs, actions, action_masks)
        return actions, values, log_prob

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; runs are those that the placements were sampled with."""
        if self.options.runs:
            first = torch.zeros(len(actions), dtype=torch.int64, device=actions.device)
            self.groupings = self.grouping_memory.recall(obs["graph_id"], actions, first)
        found = super().evaluate_actions(obs, actions, action_masks)
        self.groupings = None
        return found

    def distribution(
        self, observation: TensorDict, mask: Tensor, row: Tensor, runs: bool
    ) -> UnitCategorical:
        """The distribution of the devices of (B,) rows; ``mask``: (1, N)."""
        allowed, logits, leader = self.allowed(observation), self.logits[None], None
        # a run is one decision of its first unit, among the devices that all of its units allow
        if runs:
            leader = self.find_runs(mask, int(row.max()) + 1)
            logits = average_runs(logits.log_softmax(dim=2).expand(len(leader), -1, -1), leader)
            if allowed is not None:
                allowed = intersect_followers(allowed.expand(len(leader), -1, -1), leader)
            mask = mask & (leader == torch.arange(mask.shape[1], device=mask.device))
        return UnitCategorical(logits, mask, leader, allowed, row)

    def find_runs(self, mask: Tensor, k: int) -> Tensor:
        """(k, N) first unit of each unit's run in k ways to cut, the same in a rollout."""
        while len(self.leaders) < k:
            self.leaders.append(draw_runs(mask))
        return torch.cat(self.leaders[:k])

    def allowed(self, observation: TensorDict) -> Tensor | None:
        """(1, N, D) bool, allowed devices of each unit; None if all are allowed or unknown."""
        return None if self.table is None else self.graphs.batch(observation)[0].allowed_slots

    def uniform_probabilities(self, observation: TensorDict) -> Tensor:
        """(N, D) probabilities of a uniform choice among the allowed devices."""
        allowed = self.allowed(observation)
        share = torch.ones_like(self.logits) if allowed is None else allowed[0].float()
        return share / share.sum(dim=1, keepdim=True)


def draw_runs(mask: Tensor) -> Tensor:
    """(1, N) first unit of each unit's run, of (1, N) masks; padded units stay by themselves.

    The logarithm of the number of runs is uniform.
    """
    units = torch.arange(mask.shape[1], device=mask.device)[None]
    cut = torch.rand(mask.shape, device=mask.device) < float(mask.sum()) ** -float(torch.rand(()))
    cut[:, 0] = True
    return torch.where(cut | ~mask, units, 0).cummax(dim=1).values


def average_runs(logits: Tensor, leader: Tensor) -> Tensor:
    """(k, N, D) in which each unit has the mean of its run; ``leader``: (k, N)."""
    index = leader[..., None].expand_as(logits)
    total = torch.zeros_like(logits).scatter_add(1, index, logits)
    count = torch.zeros_like(leader).scatter_add(1, leader, torch.ones_like(leader))
    return (total / count.clamp(min=1)[..., None]).gather(1, index)
