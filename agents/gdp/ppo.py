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
    """Clipped PPO with a likelihood ratio for each unit's device, not for the whole placement.

    Deviation: the ratio of a whole placement is a product over its units. With thousands of them
    it leaves the clip range with the first step, and nothing more is learned from the rollout.
    Returns and baselines are those of ``REINFORCE``, not a critic's.

    Args:
        policy: A policy whose units choose independently, as ``GOPolicy`` or ``GCNPolicy``.
        env: As for ``REINFORCE``.
        clip_range: Clip range of the ratio.
        n_epochs: Gradient steps on each rollout.
        settings: Other arguments of ``REINFORCE``.

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
        self.before = PlacementMemory()
        super().train()
        self.before = PlacementMemory()

    def compute_losses(self, batch: RolloutBufferSamples | DictRolloutBufferSamples) -> Losses:
        assert isinstance(self.policy, UnitPolicy)
        observations: Any = batch.observations
        distribution = self.policy.decide(observations).distribution
        likelihood = distribution.conditioned_on(batch.actions)
        independent = isinstance(likelihood, StagedLikelihood | UnitCategorical)
        if not independent or getattr(likelihood, "leader", None) is not None:
            raise units_depend(self.policy)
        # one clipped ratio for each unit, relative to the first step on this rollout
        now: torch.Tensor = likelihood.unit_log_prob(batch.actions)
        ids, first = read_graph_id(observations), now.detach()
        self.before.keep(ids, batch.actions, first)
        before = self.before.recall(ids, batch.actions, first)
        ratio = (now - before).exp()
        clipped = ratio.clamp(1.0 - self.clip_range, 1.0 + self.clip_range)
        advantage = batch.advantages[:, None]
        gain = torch.minimum(advantage * ratio, advantage * clipped)
        weight = getattr(likelihood, "weight", None)
        if weight is not None:
            gain = gain * weight  # zero for padding
        return -gain.sum(dim=1).mean(), -likelihood.entropy().mean()


def units_depend(policy: Any) -> UserError:
    name = type(policy).__name__
    return UserError(
        f"UnitPPO needs a policy whose units choose independently, as GOPolicy or GCNPolicy, not "
        f"{name}: use REINFORCE or PPO for {name}"
    )
