"""Post's policy: a table of logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from agents.common.distribution import (
    DeviceDistribution,
    PlacementMemory,
    UnitCategorical,
    intersect_followers,
)
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
        self.memory = PlacementMemory()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``; greedy decisions are those of single units."""
        graph, mask = observation["graph_id"].flatten(), observation["node_mask"].bool()
        if (graph != graph[0]).any():
            raise UserError(
                "Post learns the placement of one graph: use environments of one graph only"
            )
        allowed, values = self.allowed(observation), torch.zeros(len(graph), 1, device=graph.device)
        if self.options.runs and not greedy:
            return Decision(RunDevices(self.logits, mask, allowed, graph, self.memory), values)
        row = torch.zeros(len(graph), dtype=torch.int64, device=graph.device)
        return Decision(UnitCategorical(self.logits[None], mask[:1], None, allowed, row), values)

    def insert_proposals(
        self, distribution: DeviceDistribution, actions: Tensor, proposed: Tensor
    ) -> Tensor:
        """See ``UnitPolicy``; the runs of the rollout's placements are kept."""
        actions = super().insert_proposals(distribution, actions, proposed)
        if isinstance(distribution, RunDevices):
            distribution.keep_runs(actions)
        return actions

    def allowed(self, observation: TensorDict) -> Tensor | None:
        """(1, N, D) bool, allowed devices of each unit; None if all are allowed or unknown."""
        return None if self.table is None else self.graphs.batch(observation)[0].allowed_slots

    def uniform_probabilities(self, observation: TensorDict) -> Tensor:
        """(N, D) probabilities of a uniform choice among the allowed devices."""
        allowed = self.allowed(observation)
        share = torch.ones_like(self.logits) if allowed is None else allowed[0].float()
        return share / share.sum(dim=1, keepdim=True)


class RunDevices:
    """Devices of runs of units; every placement cuts the units in its own way.

    Deviation: the paper samples every unit by itself.

    Args:
        logits: (N, D) of the units.
        mask: (B, N) bool, False for padding.
        allowed: (1, N, D) or (B, N, D) bool, allowed devices of each unit; None allows all.
        graph: (B,) ``graph_id`` of each row.
        memory: Runs that the placements of a rollout were sampled with.
    """

    def __init__(
        self,
        logits: Tensor,
        mask: Tensor,
        allowed: Tensor | None,
        graph: Tensor,
        memory: PlacementMemory,
    ) -> None:
        self.logits, self.mask, self.allowed = logits, mask, allowed
        self.graph, self.memory = graph, memory
        # without a sample every unit is a run of its own
        self.leader = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, N) devices of runs that are drawn for each row."""
        self.leader = torch.cat([draw_runs(row) for row in torch.split(self.mask, 1)])
        return self.group_by(self.leader).get_actions(deterministic)

    def keep_runs(self, actions: Tensor) -> None:
        """Keep the runs that were drawn for (B, N) devices."""
        self.memory.keep(self.graph, actions, self.leader)

    def conditioned_on(self, actions: Tensor) -> UnitCategorical:
        """The distribution of the runs that (B, N) devices were sampled with."""
        return self.group_by(self.memory.recall(self.graph, actions, self.leader))

    def restricted_to(self, allowed: Tensor) -> RunDevices:
        """The distribution with only the devices that a (B, N, D) bool mask allows."""
        both = allowed if self.allowed is None else allowed & self.allowed
        return RunDevices(self.logits, self.mask, both, self.graph, self.memory)

    def group_by(self, leader: Tensor) -> UnitCategorical:
        """Make a run one decision of its first unit; ``leader``: (B, N) of each unit's run."""
        logits = average_runs(self.logits.log_softmax(dim=1).expand(*leader.shape, -1), leader)
        units = torch.arange(leader.shape[1], device=leader.device)
        allowed = self.allowed
        if allowed is not None:
            allowed = intersect_followers(allowed.expand_as(logits), leader)
        return UnitCategorical(logits, self.mask & (leader == units), leader, allowed)


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
