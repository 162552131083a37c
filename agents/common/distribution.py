"""One categorical distribution for the devices of all units of a batch."""

from __future__ import annotations

from typing import Protocol

import torch
from stable_baselines3.common.distributions import Distribution
from torch import Tensor

FORBIDDEN = -1e9


class Likelihood(Protocol):
    """How likely (B, N) devices are that have been chosen."""

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) of all of them together."""

    def entropy(self) -> Tensor:
        """(B,) of the choice."""


class Devices(Protocol):
    """A way to choose the devices of all units of a batch."""

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, N) devices."""

    def given(self, actions: Tensor) -> Likelihood:
        """How likely the (B, N) devices are, each given those that were chosen before."""

    def without(self, allowed: Tensor) -> Devices:
        """The choice among (B, N, D) bool alone."""


class UnitCategorical(Distribution):
    """Independent choices of a device, one for each unit or for each group of units.

    A unit without a weight decides nothing: it is padding, or goes where its leader goes. Rows that
    share a state share its arithmetic.

    Args:
        logits: (S, N, D) of each device, for each of S states.
        weight: (S, N) bool, which units decide; None lets all of them.
        leader: (S, N) int64, the unit that each one follows; None lets each follow itself.
        allowed: (S, N, D) bool, which devices may be chosen; None allows all. Leaders of groups
            must allow what all of their followers do.
        row: (B,) state of each row; None makes each state a row.
    """

    def __init__(
        self,
        logits: Tensor,
        weight: Tensor | None = None,
        leader: Tensor | None = None,
        allowed: Tensor | None = None,
        row: Tensor | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        masked = logits if allowed is None else logits.masked_fill(~allowed, FORBIDDEN)
        self.of_state = masked.log_softmax(dim=-1)
        self.row = torch.arange(len(logits), device=logits.device) if row is None else row
        self.weight = None if weight is None else weight[self.row]
        self.leader = None if leader is None else leader[self.row]
        self.state_weight = weight

    @property
    def log_probs(self) -> Tensor:
        """(B, N, D) of each device."""
        return self.of_state[self.row]

    def unit_log_prob(self, actions: Tensor) -> Tensor:
        """(B, N) of each unit's device, whether it decides or not."""
        units = torch.arange(actions.shape[1], device=actions.device)
        return self.of_state[self.row[:, None], units, actions.long()]

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) of (B, N) devices: the sum over the units that decide."""
        chosen = self.unit_log_prob(actions)
        return (chosen if self.weight is None else chosen * self.weight).sum(dim=1)

    def entropy(self) -> Tensor:
        """(B,) the sum over the units that decide."""
        each = -(self.of_state.exp() * self.of_state).sum(dim=-1)
        weighted = each if self.state_weight is None else each * self.state_weight
        return weighted.sum(dim=1)[self.row]

    def permits(self, actions: Tensor) -> bool:
        """Whether the units that decide may choose these (B, N) devices."""
        chosen = self.unit_log_prob(actions)
        decided = chosen if self.weight is None else chosen[self.weight]
        return bool((decided > FORBIDDEN / 2).all())

    def given(self, actions: Tensor) -> UnitCategorical:
        """Itself: units choose independently."""
        return self

    def sample(self) -> Tensor:
        """(B, N) devices, drawn by where a uniform number lies among summed probabilities."""
        summed = self.of_state.detach().exp().cumsum(dim=-1)
        # divided by their sum, so that rounding never leads to a device that is not allowed
        reached = (summed / summed[..., -1:])[..., :-1][self.row]
        drawn = torch.rand(reached.shape[:-1], device=reached.device)
        return self.followed((drawn[..., None] >= reached).sum(dim=-1))

    def mode(self) -> Tensor:
        """(B, N) the likeliest devices."""
        return self.followed(self.of_state.argmax(dim=-1)[self.row])

    def followed(self, chosen: Tensor) -> Tensor:
        """(B, N) devices, each unit's that of its leader; 0 for padding."""
        if self.weight is not None:
            chosen = chosen * self.weight
        return chosen if self.leader is None else chosen.gather(1, self.leader)

    def without(self, allowed: Tensor) -> UnitCategorical:
        """The distribution in which (B, N, D) bool says which devices each unit allows."""
        shared = together(allowed, self.leader)
        return UnitCategorical(self.log_probs, self.weight, self.leader, shared)

    def actions_from_params(self, logits: Tensor, deterministic: bool = False) -> Tensor:
        """Devices for (B, N, D) logits."""
        return UnitCategorical(logits).get_actions(deterministic)

    def log_prob_from_params(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Sampled devices for (B, N, D) logits, with their log-probability."""
        distribution = UnitCategorical(logits)
        actions = distribution.sample()
        return actions, distribution.log_prob(actions)

    def proba_distribution(self, logits: Tensor) -> UnitCategorical:
        """The distribution of (B, N, D) logits."""
        return UnitCategorical(logits)

    def proba_distribution_net(self, latent_dim: int) -> torch.nn.Module:
        """Not used: a policy owns its networks.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("the policy makes the logits")


def together(allowed: Tensor, leader: Tensor | None) -> Tensor:
    """(B, N, D) what every follower of a leader allows, for each leader."""
    if leader is None:
        return allowed
    forbidden = (~allowed).to(torch.int32)
    index = leader[..., None].expand_as(forbidden)
    return torch.zeros_like(forbidden).scatter_add_(1, index, forbidden) == 0
