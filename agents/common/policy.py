"""Base classes of policies that read graphs, and of those that place all units at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from inspect import signature
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor

from agents.common.distribution import DeviceDistribution
from agents.common.graphs import Graphs, TensorDict
from placement_gym.base import UserError, check_plain_fields, unknown_name
from placement_gym.envs import check_sizes, read_current_unit, read_sizes

GraphTable = Mapping[int, Mapping[str, Any]]
MAY_BE_ZERO = ("groups", "depth", "layers", "rounds")
"""Options of policies that may be 0, which leaves that part out."""


class Decision(NamedTuple):
    """The output of a policy for (B, ...) observations."""

    distribution: DeviceDistribution
    values: Tensor | None = None  # (B, 1) expected returns; None without a critic


class GraphPolicy:
    """A mixin for ``ActorCriticPolicy`` with which a policy reads graphs, for any algorithm of SB3.

    Subclasses make their networks in ``build`` and their decisions in ``decide``, and declare their
    options in a dataclass, ``Options``. They accept ``action_masks``, so MaskablePPO of sb3-contrib
    trains them as well.

    Args:
        observation_space: Of the environment.
        action_space: ``n_devices`` choices for each of ``n_slots`` units; then further decisions if
            the policy is ``joint``.
        lr_schedule: Of the algorithm.
        graphs: Graphs by ``graph_id``, as ``env.unwrapped.graph_table()`` returns them, with the
            devices that support each unit. Environments with ``observe_graph=False`` need them.
        critic: Whether to build a critic, which PPO and A2C need and REINFORCE does not.
        optimizer_class: As for SB3's policies.
        optimizer_kwargs: As for SB3's policies.
        options: Attributes of ``Options``.

    Raises:
        UserError: An option is unknown, has a wrong type or is out of range.
    """

    Options: ClassVar[type[Any]]
    graphs: Graphs
    optimizer: torch.optim.Optimizer
    n_slots: int
    n_devices: int
    joint: ClassVar[bool] = False
    """True if it can also decide priority and fusion."""
    of_one_graph: tuple[str, ...] = ("tables.",)
    """Prefixes of the names of weights that hold for one graph alone."""
    masks: Any = None
    """``action_masks`` of the current prediction."""

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        graphs: GraphTable | None = None,
        critic: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        # algorithms fill in parameters without a default, and `use_sde`
        known = {**signature(GraphPolicy).parameters, **signature(type(self)).parameters}
        own = {name for name, one in known.items() if one.default is not one.empty} - {"use_sde"}
        names = sorted(own.union(field.name for field in fields(self.Options)))
        for name in sorted(set(options) - set(names)):
            if name in signature(MultiInputActorCriticPolicy).parameters:
                raise UserError(
                    f"{type(self).__name__} has no option {name}, as it has networks for graphs: "
                    f"use one of {', '.join(names)}; or 'MultiInputPolicy', which has {name}"
                )
            raise unknown_name(f"an option of {type(self).__name__}", name, names)
        self.options = self.Options(**options)
        check_plain_fields(self.options, MAY_BE_ZERO, shares=("dropout",))
        self.table, self.has_critic = graphs, critic
        super().__init__(  # type: ignore[call-arg]
            observation_space,
            action_space,
            lr_schedule,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )

    @classmethod
    def reads_devices(cls, options: Mapping[str, Any]) -> bool | None:
        """``devices`` of ``graph_table`` for these options: True, or None as in observations."""
        return True if options.get("devices") or options.get("respect_memory") else None

    @abstractmethod
    def build(self) -> None:
        """Make the networks."""

    def _build(self: Any, lr_schedule: Schedule) -> None:
        self.graphs = Graphs(self.table)
        self.build()
        self.optimizer = self.optimizer_class(
            self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs
        )

    def add_graphs(self, graphs: GraphTable) -> None:
        """Add graphs of other environments."""
        self.set_graphs({**(self.table or {}), **graphs})

    def set_graphs(self, graphs: GraphTable) -> None:
        self.table, self.graphs = graphs, Graphs(graphs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """See PyTorch; raises a ``UserError`` for weights of other sizes."""
        try:
            return super().load_state_dict(*args, **kwargs)  # type: ignore[misc]
        except RuntimeError as error:
            if "size mismatch" not in str(error):
                raise
            remedy = "train it again, or load it with the version of placement-gym that saved it"
            raise UserError(f"it was saved with other features: {remedy}") from error

    def predict(
        self: Any,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """See SB3; ``action_masks`` as for MaskablePPO."""
        # SB3's `predict` has no argument for masks: `_predict` reads this attribute
        self.masks = action_masks
        try:
            return super().predict(observation, state, episode_start, deterministic)  # type: ignore[misc]
        finally:
            self.masks = None

    def obs_to_tensor(self: Any, observation: Any) -> tuple[dict[str, Tensor], bool]:
        """See SB3; ignores unknown keys, raises a ``UserError`` for missing ones or other sizes."""
        if missing := sorted(set(self.observation_space.spaces) - set(observation)):
            remedy = (
                "make the environment with the arguments that it was trained with, as "
                "observe_graph=True or observe_devices=True"
            )
            if "current_unit" in missing:
                remedy = "use an environment of one unit per step, as DevicePlacementPerUnit-v0"
            raise UserError(f"the policy was made for observations with {missing}: {remedy}")
        observed = {key: observation[key] for key in self.observation_space.spaces}
        check_sizes(read_sizes(self.observation_space), read_sizes(observed))
        return super().obs_to_tensor(observed)  # type: ignore[misc]

    @abstractmethod
    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """Decide on (B, ...) observations; ``greedy`` is True for predictions, not rollouts."""

    def clear_stale_caches(self) -> None:
        """Drop what earlier weights computed; called before a rollout or a prediction."""

    def clear_caches(self) -> None:
        """Drop what the weights computed; called when training mode ends."""

    def set_training_mode(self: Any, mode: bool) -> None:
        if self.training and not mode:
            self.clear_caches()
        super().set_training_mode(mode)  # type: ignore[misc]

    def forward(
        self: Any, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B, ...) actions, (B, 1) values and (B,) log-probabilities."""
        self.clear_stale_caches()
        distribution, values = self.decide_within(obs, action_masks, deterministic)
        actions = distribution.get_actions(deterministic)
        log_prob = distribution.conditioned_on(actions).log_prob(actions)
        return actions.view(-1, *self.action_space.shape), values, log_prob

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B, 1) values, (B,) log-probabilities and (B,) entropies of (B, ...) actions."""
        distribution, values = self.decide_within(obs, action_masks)
        actions = actions.reshape(len(values), -1)
        likelihood = distribution.conditioned_on(actions)
        return values, likelihood.log_prob(actions), likelihood.entropy()

    def predict_values(self, obs: Any) -> Tensor:
        """(B, 1) expected returns; zeros without a critic."""
        values = self.decide(obs).values if self.has_critic else None
        return torch.zeros_like(obs["graph_id"]) if values is None else values

    def _predict(self: Any, observation: Any, deterministic: bool = False) -> Tensor:
        self.clear_stale_caches()
        distribution, _ = self.decide_within(observation, self.masks, deterministic)
        actions: Tensor = distribution.get_actions(deterministic)
        return actions.view(-1, *self.action_space.shape)

    def decide_within(
        self, observation: TensorDict, action_masks: Any, greedy: bool = False
    ) -> tuple[DeviceDistribution, Tensor]:
        """The distribution within (B, ...) masks of the environment, and (B, 1) expected returns.

        The first N * D entries of a mask are of devices; the others are ignored.
        """
        distribution, values = self.decide(observation, greedy)
        values = torch.zeros_like(observation["graph_id"]) if values is None else values
        if action_masks is not None:
            masks = torch.as_tensor(np.asarray(action_masks), device=values.device).bool()
            of_devices = masks.reshape(len(values), -1)[:, : self.n_slots * self.n_devices]
            allowed = of_devices.reshape(-1, self.n_slots, self.n_devices)
            distribution = distribution.restricted_to(allowed)
        return distribution, values

    def get_distribution(self, obs: Any) -> Any:
        """Raise a ``UserError``: only TRPO calls this, and it cannot train these policies."""
        raise UserError(
            f"TRPO cannot train {type(self).__name__}: use PPO, A2C, MaskablePPO or REINFORCE"
        )

    def _get_constructor_parameters(self: Any) -> dict[str, Any]:
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "lr_schedule": self._dummy_schedule,
            "graphs": self.table,
            "critic": self.has_critic,
            "optimizer_class": self.optimizer_class,
            "optimizer_kwargs": self.optimizer_kwargs,
            **asdict(self.options),
        }


with suppress(ModuleNotFoundError):  # an extra, whose MaskablePPO checks the class of policies
    from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

    MaskableActorCriticPolicy.register(GraphPolicy)


class UnitPolicy(GraphPolicy):
    """A ``GraphPolicy`` that places all units at once; see there for arguments and errors."""

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.MultiDiscrete,
        lr_schedule: Schedule,
        use_sde: bool = False,
        **options: Any,
    ) -> None:
        choices = getattr(action_space, "nvec", np.zeros(0)).ravel()
        # Only the observation shows how many entries belong to units, padding included.
        self.n_slots = n_slots = read_sizes(observation_space).get("max_nodes", choices.size)
        of_units, n_further = choices[:n_slots], choices.size - n_slots
        is_uniform = len(of_units) == n_slots > 0 and (of_units == of_units[0]).all()
        if not is_uniform or (n_further and not self.joint) or use_sde:
            raise UserError(
                f"{type(self).__name__} places all units at once: use DevicePlacement-v0 or "
                "DevicePlacementSim-v0 without use_sde, with decisions=('placement',), not actions "
                f"{action_space}"
            )
        self.n_devices = int(of_units[0])
        super().__init__(observation_space, action_space, lr_schedule, **options)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """See SB3; in an environment of one unit per step, the current unit's device."""
        if "current_unit" not in observation:
            return super().predict(observation, state, episode_start, deterministic, action_masks)
        # The policy acts unit by unit if every step of an episode returns the same placement: that
        # of the first step, without the masks that later steps have for their unit.
        first = {**observation, "step": np.zeros_like(observation["step"])}
        actions, state = super().predict(first, state, episode_start, deterministic)
        units = read_current_unit(observation)
        return np.take_along_axis(actions, units, axis=-1)[..., 0], state
