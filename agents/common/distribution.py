"""One categorical distribution for the devices of all units of a batch."""

from __future__ import annotations

import torch
from stable_baselines3.common.distributions import Distribution
from torch import Tensor

FORBIDDEN = -1e9


class UnitCategorical(Distribution):
    """Independent choices of a device, one for each unit or for each group of units.

    A unit without a weight decides nothing: it is padding, or goes where its leader goes.

    Args:
        logits: (B, N, D) of each device.
        weight: (B, N) bool, which units decide; None lets all of them.
        leader: (B, N) int64, the unit that each one follows; None lets each follow itself.
        allowed: (B, N, D) bool, which devices may be chosen; None allows all. Leaders of groups
            must allow what all of their followers do.
    """

    def __init__(
        self,
        logits: Tensor,
        weight: Tensor | None = None,
        leader: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weight, self.leader = weight, leader
        masked = logits if allowed is None else logits.masked_fill(~allowed, FORBIDDEN)
        self.log_probs = masked.log_softmax(dim=-1)

    @property
    def parts(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Log-probabilities (B, N, D), which units decide, and the units they follow."""
        return self.log_probs, self.weight, self.leader

    def log_prob(self, actions: Tensor) -> Tensor:
        """(B,) of (B, N) devices: the sum over the units that decide."""
        return self.total(self.unit_log_prob(actions))

    def unit_log_prob(self, actions: Tensor) -> Tensor:
        """(B, N) of each unit's device, whether it decides or not."""
        return self.log_probs.gather(-1, actions.long()[..., None])[..., 0]

    def permits(self, actions: Tensor) -> bool:
        """Whether the first rows' units that decide may all choose these (b, N) devices."""
        chosen = self.unit_log_prob(actions.expand(len(self.log_probs), -1))[: len(actions)]
        decides = self.weight[: len(actions)] if self.weight is not None else chosen == chosen
        return bool((chosen[decides] > FORBIDDEN / 2).all())

    def entropy(self) -> Tensor:
        """(B,) the sum over the units that decide."""
        return self.total(-(self.log_probs.exp() * self.log_probs).sum(dim=-1))

    def total(self, values: Tensor) -> Tensor:
        """(B,) sums of (B, N) over the units that decide."""
        return values.sum(dim=1) if self.weight is None else (values * self.weight).sum(dim=1)

    def sample(self) -> Tensor:
        """(B, N) devices, drawn by the largest perturbed logit."""
        return self.followed((self.log_probs - exponential_like(self.log_probs).log()).argmax(-1))

    def mode(self) -> Tensor:
        """(B, N) the likeliest devices."""
        return self.followed(self.log_probs.argmax(dim=-1))

    def followed(self, chosen: Tensor) -> Tensor:
        """(B, N) devices, each unit's that of its leader; 0 for padding."""
        if self.weight is not None:
            chosen = chosen * self.weight
        return chosen if self.leader is None else chosen.gather(1, self.leader)

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


def exponential_like(values: Tensor) -> Tensor:
    """Standard exponential numbers: minus their logarithm is Gumbel noise."""
    return torch.empty_like(values).exponential_()
