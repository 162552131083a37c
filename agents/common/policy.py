"""What all policies that place every unit at once have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor

from agents.common.distribution import Devices, Likelihood, UnitCategorical
from agents.common.graph_policy import GraphPolicy, GraphTable
from agents.common.graphs import TensorDict
from placement_gym.errors import UserError


class Decision(NamedTuple):
    """What a policy says to (B, ...) observations.

    Attributes:
        distribution: Of the devices.
        values: (B, 1) expected returns, zero without a critic.
    """

    distribution: Devices
    values: Tensor


class UnitPolicy(GraphPolicy):
    """A per-unit actor as an SB3 policy; mixed into ``ActorCriticPolicy`` or its maskable twin.

    Works in PPO, A2C and REINFORCE; with sb3-contrib's base class also in MaskablePPO. A subclass
    makes its networks in ``build`` and its decisions in ``decide``.

    Args:
        observation_space: Of the environment.
        action_space: Of the environment, ``MultiDiscrete`` with equal numbers of devices.
        lr_schedule: Of the algorithm.
        graphs: See ``GraphPolicy``.
        critic: See ``GraphPolicy``.
        use_sde: Not for discrete actions.
        optimizer_class: As for SB3's policies.
        optimizer_kwargs: As for SB3's policies.

    Raises:
        ValueError: The environment does not place all units at once, or ``use_sde`` is set.
    """

    greedy_first: bool = False
    """Whether the first of several sampled placements is the one that prediction would give."""
    imitates: bool = True
    """Whether the likelihood of a placement says how likely each unit's device is."""

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.MultiDiscrete,
        lr_schedule: Schedule,
        graphs: GraphTable | None = None,
        critic: bool = True,
        use_sde: bool = False,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        devices = getattr(action_space, "nvec", np.zeros(0))
        if not len(devices) or (devices != devices[0]).any() or use_sde:
            raise UserError(
                f"{type(self).__name__} places all units at once: use DevicePlacement-v0 or "
                f"DevicePlacementSim-v0 without use_sde, not actions {action_space}"
            )
        self.n_slots, self.n_devices = len(devices), int(devices[0])
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            graphs,
            critic,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )

    @abstractmethod
    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """The decision on (B, ...) observations.

        Args:
            observation: Of the environment's space.
            greedy: Whether the likeliest placement is asked for, not one to learn from.
        """

    def renew(self) -> None:
        """A roll-out or a prediction begins: forget what follows from weights that changed."""

    def clear_caches(self) -> None:
        """Training has ended: forget what follows from the weights."""

    def set_training_mode(self: Any, mode: bool) -> None:
        """See SB3's ``BasePolicy``."""
        if self.training and not mode:
            self.clear_caches()
        super().set_training_mode(mode)  # type: ignore[misc]

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B, N) actions, (B, 1) values and (B,) log-probabilities."""
        self.renew()
        distribution, values = self.masked(self.decide(obs, deterministic), action_masks)
        actions = distribution.get_actions(deterministic)
        if self.greedy_first and len(actions) > 1:
            first = {key: value[:1] for key, value in obs.items()}
            masks = None if action_masks is None else action_masks[:1]
            greedy = self._predict(first, deterministic=True, action_masks=masks)
            proposed = torch.cat([greedy, actions[1:]])
            permitted = by_unit(distribution.given(proposed)).permits(proposed)
            actions = proposed if permitted else actions
        return actions, values, distribution.given(actions).log_prob(actions)

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B, 1) values, (B,) log-probabilities and (B,) entropies of (B, N) actions."""
        distribution, values = self.masked(self.decide(obs), action_masks)
        likelihood = distribution.given(actions)
        return values, likelihood.log_prob(actions), likelihood.entropy()

    def unit_log_prob(self, obs: Any, actions: Tensor) -> Tensor:
        """(B,) mean over the units of how likely prediction finds each device of (B, N)."""
        mask = obs["node_mask"].bool()
        likelihood = self.decide(obs, greedy=True).distribution.given(actions)
        chosen = by_unit(likelihood).unit_log_prob(actions)
        return (chosen * mask).sum(dim=1) / mask.sum(dim=1)

    def get_distribution(self, obs: Any, action_masks: Any = None) -> Any:
        """The distribution of the devices."""
        self.renew()
        return self.masked(self.decide(obs), action_masks).distribution

    def predict_values(self, obs: Any) -> Tensor:
        """(B, 1) expected returns."""
        return self.decide(obs).values

    def predict(
        self: Any,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        **masks: Any,
    ) -> tuple[Any, Any]:
        """As SB3's; where units are placed one by one, the device of the current one."""
        current = observation.get("current_unit")
        if current is not None:
            observation = {**observation, "step": np.zeros_like(observation["step"])}
        actions, state = super().predict(  # type: ignore[misc]
            observation, state, episode_start, deterministic, **masks
        )
        if current is None:
            return actions, state
        return np.take_along_axis(actions, current, axis=-1)[..., 0], state

    def _predict(
        self, observation: Any, deterministic: bool = False, action_masks: Any = None
    ) -> Tensor:
        self.renew()
        decision = self.masked(self.decide(observation, deterministic), action_masks)
        return decision.distribution.get_actions(deterministic)

    def masked(self, decision: Decision, action_masks: Any) -> Decision:
        """The decision without the devices that (B, N * D) masks of the environment forbid."""
        if action_masks is None:
            return decision
        distribution, values = decision
        masks = torch.as_tensor(np.asarray(action_masks), device=values.device).bool()
        allowed = masks.reshape(-1, self.n_slots, self.n_devices)
        return Decision(distribution.without(allowed), values)


def by_unit(likelihood: Likelihood) -> UnitCategorical:
    """The likelihood as one of each unit."""
    assert isinstance(likelihood, UnitCategorical)
    return likelihood
