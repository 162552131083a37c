"""PPO for placements of thousands of units."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.type_aliases import DictRolloutBufferSamples, RolloutBufferSamples
from torch import Tensor
from torch.nn import functional

from agents.common.distribution import UnitCategorical
from agents.common.policy import UnitPolicy
from agents.common.reinforce import REINFORCE, Losses
from placement_gym.errors import UserError


class UnitPPO(REINFORCE):
    """Clipped PPO whose likelihood ratio is that of each unit's device, not of the placement.

    The ratio of a whole placement is a product over its units: with thousands of them it leaves
    the clip range with the first step, and nothing more is learned from the rollout. Units choose
    independently of each other here, so that each has its own ratio. Returns and baselines are
    those of ``REINFORCE``.

    Args:
        policy: A policy whose units choose independently, as ``GOPolicy`` or ``GCNPolicy``.
        env: As for ``REINFORCE``.
        clip_range: Clip range of the ratio.
        n_epochs: Steps on each rollout.
        settings: Further arguments of ``REINFORCE``.

    Raises:
        ValueError: As for ``REINFORCE``; or the policy's units depend on each other.
    """

    def __init__(
        self,
        policy: Any,
        env: Any,
        clip_range: float = 0.2,
        n_epochs: int = 4,
        **settings: Any,
    ) -> None:
        self.clip_range = clip_range
        self.before: dict[int, Tensor] = {}
        super().__init__(policy, env, n_epochs=n_epochs, **settings)

    def train(self) -> None:
        """Update the policy on the rollout."""
        self.before = {}
        super().train()
        self.before = {}

    def compute_losses(self, batch: RolloutBufferSamples | DictRolloutBufferSamples) -> Losses:
        """Policy, entropy and value loss of some rows of the rollout."""
        assert isinstance(self.policy, UnitPolicy)
        observations: Any = batch.observations
        distribution, values = self.policy.decide(observations)
        if not isinstance(distribution, UnitCategorical) or distribution.leader is not None:
            raise UserError("UnitPPO needs a policy whose units choose independently: use PPO")
        before = self.remember(distribution, observations["graph_id"])
        now = distribution.unit_log_prob(batch.actions)
        units = torch.arange(now.shape[1], device=now.device)
        ratio = (now - before[distribution.row[:, None], units, batch.actions.long()]).exp()
        clipped = ratio.clamp(1.0 - self.clip_range, 1.0 + self.clip_range)
        advantage = batch.advantages[:, None]
        gain = torch.minimum(advantage * ratio, advantage * clipped)
        gain = gain if distribution.weight is None else gain * distribution.weight
        return (
            -gain.sum(dim=1).mean(),
            -distribution.entropy().mean(),
            functional.mse_loss(values.flatten(), batch.returns),
        )

    def remember(self, distribution: UnitCategorical, graph_id: Tensor) -> Tensor:
        """(S, N, D) log-probabilities before the first step on this rollout."""
        ids = torch.unique(graph_id.flatten()).tolist()
        for state, log_probs in zip(ids, distribution.state_log_probs.detach(), strict=True):
            self.before.setdefault(int(state), log_probs)
        return torch.stack([self.before[int(state)] for state in ids])
