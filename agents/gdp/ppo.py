"""PPO for placements of thousands of units."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.type_aliases import DictRolloutBufferSamples, RolloutBufferSamples

from agents.common import REINFORCE, Losses, PlacementMemory, UnitCategorical, UnitPolicy
from agents.gdp.stages import StagedLikelihood
from placement_gym.base import UserError
from placement_gym.envs import read_graph_id


class UnitPPO(REINFORCE):
    """Clipped PPO whose likelihood ratio is that of each unit's device, not of the placement.

    Deviation: the ratio of a whole placement is a product over its units. With thousands of them
    it leaves the clip range with the first step, and nothing more is learned from the rollout.
    Units choose independently of each other here, so each has its own ratio. Returns and
    baselines are those of ``REINFORCE``, not a critic's.

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
        self, policy: Any, env: Any, clip_range: float = 0.2, n_epochs: int = 4, **settings: Any
    ) -> None:
        self.clip_range = clip_range
        self.before = PlacementMemory()
        super().__init__(policy, env, n_epochs=n_epochs, **settings)

    def _setup_model(self) -> None:
        super()._setup_model()
        if not isinstance(self.policy, UnitPolicy):
            raise units_depend(self.policy)

    def train(self) -> None:
        """Update the policy on the rollout."""
        self.before = PlacementMemory()
        super().train()
        self.before = PlacementMemory()

    def compute_losses(self, batch: RolloutBufferSamples | DictRolloutBufferSamples) -> Losses:
        """Policy and entropy loss of some rows of the rollout."""
        assert isinstance(self.policy, UnitPolicy)
        observations: Any = batch.observations
        distribution = self.policy.decide(observations).distribution
        likelihood = distribution.conditioned_on(batch.actions)
        if not isinstance(likelihood, StagedLikelihood | UnitCategorical) or (
            isinstance(likelihood, UnitCategorical) and likelihood.leader is not None
        ):
            raise units_depend(self.policy)
        # one clipped ratio for each unit: their product would leave the clip range at once
        now = likelihood.unit_log_prob(batch.actions)
        rows, first = (read_graph_id(observations), batch.actions), now.detach()
        self.before.keep(*rows, first)  # those of the first step on this rollout stay
        before = self.before.recall(*rows, first)
        ratio = (now - before).exp()
        clipped = ratio.clamp(1.0 - self.clip_range, 1.0 + self.clip_range)
        advantage = batch.advantages[:, None]
        gain = torch.minimum(advantage * ratio, advantage * clipped)
        if isinstance(likelihood, UnitCategorical) and likelihood.weight is not None:
            gain = gain * likelihood.weight  # zero for padding
        return -gain.sum(dim=1).mean(), -likelihood.entropy().mean()


def units_depend(policy: Any) -> UserError:
    """The error for a policy without a likelihood ratio for each unit."""
    name = type(policy).__name__
    return UserError(
        f"UnitPPO needs a policy whose units choose independently, as GOPolicy or GCNPolicy, not "
        f"{name}: use REINFORCE or PPO for {name}"
    )
