"""Distributions of the devices of all units of a batch."""

from __future__ import annotations

from typing import Any, Protocol, Self

import torch
from torch import Tensor

from agents.common.graphs import MIN_COST

FORBIDDEN = -1e9
"""Logit of a device that is not allowed: its probability is 0 in float32, but p log p and its
gradient stay finite, unlike with minus infinity."""


class DeviceDistribution(Protocol):
    """The distribution that a policy returns; see ``Decision``."""

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, N) sampled devices, or the most likely ones."""

    def conditioned_on(self, actions: Tensor) -> Any:
        """The likelihood of (B, N) devices, each conditioned on those chosen before it.

        Its methods ``log_prob(actions)`` and ``entropy()`` return (B,) tensors.
        """

    def restricted_to(self, allowed: Tensor) -> DeviceDistribution:
        """The distribution with only the devices that a (B, N, D) bool mask allows."""


class UnitCategorical:
    """A ``DeviceDistribution`` of independent choices, one for each unit or group of units.

    Rows that share a state share its softmax.

    Args:
        logits: (S, N, D) logits of the devices in each of S states.
        weight: (S, N) bool, the units that decide; the others are padding or follow a leader. None
            means all.
        leader: (S, N) int64, the unit that each unit follows; None means itself.
        allowed: (S, N, D) bool, the devices that may be chosen; None allows all. A leader may only
            allow what all of its followers allow.
        row: (B,) state of each row; None means one row per state.
    """

    def __init__(
        self,
        logits: Tensor,
        weight: Tensor | None = None,
        leader: Tensor | None = None,
        allowed: Tensor | None = None,
        row: Tensor | None = None,
    ) -> None:
        masked = logits if allowed is None else logits.masked_fill(~allowed, FORBIDDEN)
        self.state_log_probs = masked.log_softmax(dim=-1)
        self.row = torch.arange(len(logits), device=logits.device) if row is None else row
        self.weight = None if weight is None else weight[self.row]
        self.leader = None if leader is None else leader[self.row]
        self.state_weight = weight

    @property
    def log_probs(self) -> Tensor:
        """(B, N, D) log-probability of each device."""
        return self.state_log_probs[self.row]

    def unit_log_prob(self, actions: Tensor) -> Tensor:
        """(B, N) log-probability of each unit's device, 0 where a unit does not decide."""
        units = torch.arange(actions.shape[1], device=actions.device)
        log_probs = self.state_log_probs[self.row[:, None], units, actions.long()]
        return log_probs if self.weight is None else log_probs * self.weight

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) log-probability of (B, N) devices, summed over the units that decide."""
        return self.unit_log_prob(actions).sum(dim=1)

    def entropy(self) -> Tensor:
        """(B,) entropy, summed over the units that decide."""
        each = -(self.state_log_probs.exp() * self.state_log_probs).sum(dim=-1)
        each = each if self.state_weight is None else each * self.state_weight
        return each.sum(dim=1)[self.row]

    def conditioned_on(self, actions: Tensor) -> Self:
        """Itself: units choose independently."""
        return self

    def get_actions(self, deterministic: bool = False) -> Tensor:
        return self.mode() if deterministic else self.sample()

    def sample(self) -> Tensor:
        """(B, N) sampled devices."""
        return self.follow_leaders(sample_devices(self.state_log_probs, self.row))

    def mode(self) -> Tensor:
        """(B, N) most likely devices."""
        return self.follow_leaders(self.state_log_probs.argmax(dim=-1)[self.row])

    def follow_leaders(self, devices: Tensor) -> Tensor:
        """Give each unit the device of its leader among (B, N) devices, and padding 0."""
        if self.weight is not None:
            devices = devices * self.weight
        return devices if self.leader is None else devices.gather(1, self.leader)

    def restricted_to(self, allowed: Tensor) -> Self:
        if self.leader is not None:
            allowed = intersect_followers(allowed, self.leader, self.leader.shape[1])
        return type(self)(self.log_probs, self.weight, self.leader, allowed)


def sample_devices(log_probs: Tensor, row: Tensor) -> Tensor:
    """(B, N) devices, sampled by (S, N, D) log-probabilities of the (B,) state of each row."""
    cumulative = log_probs.detach().exp().cumsum(dim=-1)
    # Inversion of the cumulative probabilities. Without the division a sum that rounds below 1
    # would select the last device, allowed or not.
    thresholds = (cumulative / cumulative[..., -1:])[..., :-1][row]
    uniform = torch.rand(thresholds.shape[:-1], device=thresholds.device)
    return (uniform[..., None] >= thresholds).sum(dim=-1)


def intersect_followers(allowed: Tensor, leader: Tensor, n_leaders: int) -> Tensor:
    """(B, n_leaders, D) bool, what all followers of each leader allow, of (B, N, D) and (B, N)."""
    index, forbidden = leader[..., None].expand_as(allowed), (~allowed).to(torch.int32)
    count = forbidden.new_zeros(len(allowed), n_leaders, allowed.shape[2])
    return count.scatter_add_(1, index, forbidden) == 0


def first_keep(n_units: Tensor, groups: float) -> Tensor:
    """Initial logits of following, by which about ``groups`` of n units choose a device."""
    return (n_units / groups - 1.0).clamp(min=MIN_COST).log()


class PlacementMemory:
    """Values of sampled placements that SB3's rollout buffer cannot hold, as groups of units.

    A placement that is sampled again keeps its first values. If these are groups, both groupings
    are samples of one conditional distribution: the estimate of the gradient stays unbiased, and
    its variance grows with the number of equal placements in a rollout.
    """

    def __init__(self) -> None:
        self.values: dict[tuple[int, bytes], Tensor] = {}

    def keep(self, graph: Tensor, placements: Tensor, values: Tensor) -> None:
        """Store (B, ...) values of (B, N) placements on graphs with (B,) ``graph_id``."""
        for key, value in zip(make_keys(graph, placements), values, strict=True):
            # The rollout's log-probability was computed with the first value.
            self.values.setdefault(key, value)

    def recall(self, graph: Tensor, placements: Tensor, fallback: Tensor) -> Tensor:
        """(B, ...) values of (B, N) placements, or ``fallback`` for those that were not sampled."""
        pairs = zip(make_keys(graph, placements), fallback, strict=True)
        return torch.stack([self.values.get(key, default) for key, default in pairs])


def make_keys(graph: Tensor, placements: Tensor) -> list[tuple[int, bytes]]:
    """Make hashable keys of (B, N) placements on graphs with (B,) ``graph_id``."""
    rows = placements.to(torch.uint8).cpu().numpy()
    ids = graph.flatten().tolist()
    return [(int(graph_id), row.tobytes()) for graph_id, row in zip(ids, rows, strict=True)]
