"""The base of policies that place all units at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor

from agents.common.distribution import DeviceDistribution, UnitLikelihood
from agents.common.following import FollowingDevices
from agents.common.graph_policy import GraphPolicy
from agents.common.graphs import TensorDict
from agents.common.redraw import WINDOW, Redraws
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.envs.scaling import read_current_unit
from placement_gym.problem.decisions import DECISIONS, LEVELS, PLACEMENT_ALONE

BIT_VALUES = 2
"""Values of a bit of fusion."""


class Decision(NamedTuple):
    """The output of a policy for (B, ...) observations.

    Attributes:
        distribution: Distribution of the devices.
        values: (B, 1) expected returns, zero without a critic.
    """

    distribution: DeviceDistribution
    values: Tensor


class UnitPolicy(GraphPolicy):
    """A mixin for ``ActorCriticPolicy``.

    It works with PPO, A2C, REINFORCE and sb3-contrib's MaskablePPO.
    Subclasses make their networks in ``build`` and their decisions in ``decide``.

    Args:
        observation_space: Observation space of the environment.
        action_space: ``MultiDiscrete`` with the same number of devices for every unit, and then
            further decisions if the policy is ``joint``.
        lr_schedule: Learning rate schedule of the algorithm.
        use_sde: Must be False: actions are discrete.
        options: See ``GraphPolicy``.

    Raises:
        UserError: An option is unknown, the environment does not place all units at once, or
            ``use_sde`` is set.
    """

    proposals: Sequence[IntArray] = ()
    """(n_units,) placements, as of heuristics, that replace the next sampled ones."""
    redraws: Redraws | None = None
    """Draws of this rollout near the best placements; None draws whole placements."""
    joint: bool = False
    """True if the policy can decide priority and fusion, too."""

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.MultiDiscrete,
        lr_schedule: Schedule,
        use_sde: bool = False,
        **options: Any,
    ) -> None:
        parts = read_parts(observation_space, action_space)
        if parts is None or use_sde or (parts.decisions != PLACEMENT_ALONE and not self.joint):
            raise UserError(
                f"{type(self).__name__} places all units at once: use DevicePlacement-v0 or "
                "DevicePlacementSim-v0 without use_sde, with decisions=('placement',), not actions "
                f"{action_space}"
            )
        self.parts = parts
        self.n_slots, self.n_devices = parts.units, parts.devices
        super().__init__(observation_space, action_space, lr_schedule, **options)

    @abstractmethod
    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """Decide on (B, ...) observations.

        Args:
            observation: Tensors of the environment's observation space.
            greedy: Whether the decision is for deterministic prediction, not for a rollout.
        """

    @property
    def draws_groups(self) -> bool:
        """True if groups are drawn with each placement, by ``FollowingDevices``."""
        return False

    def clear_stale_caches(self) -> None:
        """Drop caches of earlier weights; called before a rollout or a prediction."""

    def clear_caches(self) -> None:
        """Drop caches of the weights; called when training mode ends."""

    def set_training_mode(self: Any, mode: bool) -> None:
        """See SB3's ``BasePolicy``."""
        if self.training and not mode:
            self.clear_caches()
        super().set_training_mode(mode)  # type: ignore[misc]

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B, N) actions, (B, 1) values and (B,) log-probabilities."""
        self.clear_stale_caches()
        distribution, values = self.apply_masks(self.decide(obs, deterministic), action_masks)
        # The likelihood of a redrawn window is that of its units given the others: the rest of the
        # placement was not drawn, and its gradient would be noise.
        if self.redraws is not None and not deterministic:
            assert isinstance(distribution, FollowingDevices)
            actions, window = self.redraws.draw(obs, distribution)
            return actions, values, distribution.within(window, actions).log_prob(actions)
        actions = distribution.get_actions(deterministic)
        if not deterministic:
            actions = self.insert_proposals(distribution, actions, self.take_proposals(actions))
        return actions, values, distribution.conditioned_on(actions).log_prob(actions)

    def take_proposals(self, actions: Tensor) -> Tensor:
        """(k, N) placements to be evaluated in the place of the first of (B, N) sampled ones."""
        waiting = self.proposals[: len(actions)]
        self.proposals = self.proposals[len(actions) :]
        rows = actions.new_zeros(len(waiting), actions.shape[1])
        if len(waiting):
            rows[:, : len(waiting[0])] = torch.as_tensor(np.stack(list(waiting)))
        return rows

    def insert_proposals(
        self, distribution: DeviceDistribution, actions: Tensor, replacements: Tensor
    ) -> Tensor:
        """(B, N) actions, the first ones replaced by (k, N) others that are permitted."""
        if not len(replacements):
            return actions
        # A proposal that masks forbid would have a log-probability of about -1e9.
        candidates = torch.cat([replacements, actions[len(replacements) :]])
        likelihood = distribution.conditioned_on(candidates)
        assert isinstance(likelihood, UnitLikelihood)
        is_permitted = likelihood.permits(candidates)
        return torch.where(is_permitted[:, None], candidates, actions)

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B, 1) values, (B,) log-probabilities and (B,) entropies of (B, N) actions.

        Where observations of a rollout have windows, they are those of the units in them.
        """
        distribution, values = self.apply_masks(self.decide(obs), action_masks)
        if WINDOW in obs:
            assert isinstance(distribution, FollowingDevices)
            distribution = distribution.within(obs[WINDOW].bool(), actions)
        likelihood = distribution.conditioned_on(actions)
        return values, likelihood.log_prob(actions), likelihood.entropy()

    def predict_values(self, obs: Any) -> Tensor:
        """(B, 1) expected returns; zeros at once without a critic."""
        if not self.has_critic:
            return torch.zeros(len(obs["graph_id"]), 1, device=obs["graph_id"].device)
        return self.decide(obs).values

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """See SB3; in an environment of one unit per step, the current unit's device."""
        by_unit = "current_unit" in observation
        # A policy of whole placements can act unit by unit, if every step of an episode gives the
        # same placement: the first step's, whatever masks later steps have for their unit.
        if by_unit:
            observation = {**observation, "step": np.zeros_like(observation["step"])}
            action_masks = None
        actions, state = super().predict(
            observation, state, episode_start, deterministic, action_masks
        )
        if not by_unit:
            return actions, state
        units = read_current_unit(observation)
        return np.take_along_axis(actions, units, axis=-1)[..., 0], state

    def _predict(self, observation: Any, deterministic: bool = False) -> Tensor:
        self.clear_stale_caches()
        decision = self.apply_masks(self.decide(observation, deterministic), self.masks)
        return decision.distribution.get_actions(deterministic)

    def apply_masks(self, decision: Decision, action_masks: Any) -> Decision:
        """Restrict the decision to the devices that (B, ...) masks of the environment allow.

        Their first N * D entries are of devices; of further decisions all is allowed.
        """
        if action_masks is None:
            return decision
        distribution, values = decision
        masks = torch.as_tensor(np.asarray(action_masks), device=values.device).bool()
        of_devices = masks.reshape(len(values), -1)[:, : self.n_slots * self.n_devices]
        allowed = of_devices.reshape(-1, self.n_slots, self.n_devices)
        return Decision(distribution.restricted_to(allowed), values)


class ActionParts(NamedTuple):
    """The parts of an action, in their order; see ``placement_gym.problem.decisions.ActionLayout``.

    Attributes:
        units: Entries that are devices, padding included.
        levels: Entries that are levels.
        edges: Entries that are bits.
        devices: Number of devices.
    """

    units: int
    levels: int
    edges: int
    devices: int

    @property
    def counts(self) -> list[int]:
        """Entries of each part."""
        return [self.units, self.levels, self.edges]

    @property
    def decisions(self) -> tuple[str, ...]:
        """Those of ``DECISIONS`` that have entries."""
        return tuple(name for name, count in zip(DECISIONS, self.counts, strict=True) if count > 0)


def read_parts(
    observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> ActionParts | None:
    """Read the parts of actions that place all units at once; None if they are something else."""
    choices = getattr(action_space, "nvec", np.zeros(0))
    if choices.ndim != 1 or not len(choices):
        return None
    # Padding belongs to the units: only the observation tells their number from further decisions.
    units = len(choices)
    if isinstance(observation_space, spaces.Dict) and "node_mask" in observation_space.spaces:
        (units,) = observation_space["node_mask"].shape or (0,)
    further = choices[units:]
    levels = units * bool(len(further) >= units and (further[:units] == LEVELS).all())
    is_uniform = (choices[:units] == choices[0]).all() and (further[levels:] == BIT_VALUES).all()
    if not 0 < units <= len(choices) or not is_uniform:
        return None
    return ActionParts(units, levels, len(further) - levels, int(choices[0]))
