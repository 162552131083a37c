"""One categorical distribution for the devices of all units of a batch."""

from __future__ import annotations

from typing import Any, Protocol, Self

import torch
from torch import Tensor

from agents.common.graphs import MIN_COST

FORBIDDEN = -1e9
"""Logit of a device that is not allowed: its probability is 0 in float32, and unlike with minus
infinity p log p and its gradient stay finite."""


class DeviceDistribution(Protocol):
    """A distribution of the devices of all units of a batch."""

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, N) sampled devices, or the most likely ones."""

    def conditioned_on(self, actions: Tensor) -> Any:
        """The likelihood of (B, N) devices, each conditioned on those chosen before it.

        It has ``log_prob(actions)`` and ``entropy()``, both (B,).
        """

    def restricted_to(self, allowed: Tensor) -> DeviceDistribution:
        """The distribution with only the devices that a (B, N, D) bool mask allows."""


class UnitCategorical:
    """Independent categorical distributions, one per unit or per group of units.

    A unit without weight makes no decision: it is padding, or follows its leader. Rows that share a
    state share its softmax.

    Args:
        logits: (S, N, D) logits of the devices in each of S states.
        weight: (S, N) bool, the units that decide; None means all.
        leader: (S, N) int64, the unit that each unit follows; None means itself.
        allowed: (S, N, D) bool, the devices that may be chosen; None allows all. A leader must
            allow only what all of its followers allow.
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
        """(B, N) sampled devices, or the most likely ones."""
        return self.mode() if deterministic else self.sample()

    def sample(self) -> Tensor:
        """(B, N) sampled devices."""
        return self.follow_leaders(sample_devices(self.state_log_probs, self.row))

    def mode(self) -> Tensor:
        """(B, N) most likely devices."""
        return self.follow_leaders(self.state_log_probs.argmax(dim=-1)[self.row])

    def follow_leaders(self, devices: Tensor) -> Tensor:
        """(B, N) devices in which each unit has that of its leader, and padding has 0."""
        if self.weight is not None:
            devices = devices * self.weight
        return devices if self.leader is None else devices.gather(1, self.leader)

    def restricted_to(self, allowed: Tensor) -> Self:
        """The distribution with only the devices that a (B, N, D) bool mask allows."""
        if self.leader is not None:
            allowed = intersect_followers(allowed, self.leader, self.leader.shape[1])
        return type(self)(self.log_probs, self.weight, self.leader, allowed)


def sample_devices(log_probs: Tensor, row: Tensor) -> Tensor:
    """(B, N) devices, sampled by inverting the cumulative probabilities.

    Args:
        log_probs: (S, N, D) log-probabilities of each of S states.
        row: (B,) state of each row.
    """
    cumulative = log_probs.detach().exp().cumsum(dim=-1)
    # Divided by their sum: a cumulative probability that rounds below 1 would otherwise select
    # the last device, allowed or not.
    thresholds = (cumulative / cumulative[..., -1:])[..., :-1][row]
    uniform = torch.rand(thresholds.shape[:-1], device=thresholds.device)
    return (uniform[..., None] >= thresholds).sum(dim=-1)


def intersect_followers(allowed: Tensor, leader: Tensor, n_leaders: int) -> Tensor:
    """(B, n_leaders, D) bool, what all followers of each leader allow, of (B, N, D) and (B, N)."""
    # Counting by scatter works for any number of followers, in one operation.
    index, forbidden = leader[..., None].expand_as(allowed), (~allowed).to(torch.int32)
    count = forbidden.new_zeros(len(allowed), n_leaders, allowed.shape[2])
    return count.scatter_add_(1, index, forbidden) == 0


def first_keep(n_units: Tensor, groups: float) -> Tensor:
    """Logits of following before learning, so that about ``groups`` of n units choose a device."""
    return (n_units / groups - 1.0).clamp(min=MIN_COST).log()


class PlacementMemory:
    """Values of placements that SB3's rollout buffer does not hold, as the groups of their units.

    A placement that is sampled again keeps the values of its first time. Where these are groups,
    both groupings are samples of the same conditional distribution, so the estimate of the gradient
    stays unbiased; only its variance grows with the number of equal placements in a rollout.
    """

    def __init__(self) -> None:
        self.values: dict[tuple[int, bytes], Tensor] = {}

    def keep(self, graph: Tensor, placements: Tensor, values: Tensor) -> None:
        """Store (B, ...) values of (B, N) placements on graphs with (B,) ``graph_id``."""
        for key, value in zip(make_keys(graph, placements), values, strict=True):
            # The first value stays: the rollout's log-probability was computed with it.
            self.values.setdefault(key, value)

    def recall(self, graph: Tensor, placements: Tensor, fallback: Tensor) -> Tensor:
        """(B, ...) values of (B, N) placements; ``fallback`` for those that were not sampled."""
        pairs = zip(make_keys(graph, placements), fallback, strict=True)
        return torch.stack([self.values.get(key, default) for key, default in pairs])


def make_keys(graph: Tensor, placements: Tensor) -> list[tuple[int, bytes]]:
    """Make hashable keys of (B, N) placements on graphs with (B,) ``graph_id``."""
    rows = placements.to(torch.uint8).cpu().numpy()
    ids = graph.flatten().tolist()
    return [(int(graph_id), row.tobytes()) for graph_id, row in zip(ids, rows, strict=True)]
