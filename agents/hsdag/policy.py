"""HSDAG as an SB3 policy."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor

from agents.common.distribution import FORBIDDEN, UnitCategorical
from agents.common.graphs import TensorDict
from agents.common.policy import Decision, UnitPolicy
from agents.hsdag.networks import Networks, States
from agents.hsdag.options import make_options
from agents.hsdag.rollout import Rollout

MAX_FLIP_SHARE = 0.5
"""Maximum weight of the uniform distribution in a group's probabilities."""


class HSDAGActor(UnitPolicy):
    """HSDAG's decisions, to be mixed into a policy class of SB3.

    Args:
        observation_space: See ``UnitPolicy``.
        action_space: See ``UnitPolicy``.
        lr_schedule: See ``UnitPolicy``.
        preset: ``"default"``, ``"search"`` or ``"paper"``.
        graphs: See ``UnitPolicy``.
        critic: See ``UnitPolicy``.
        use_sde: See ``UnitPolicy``.
        optimizer_class: See ``UnitPolicy``.
        optimizer_kwargs: See ``UnitPolicy``.
        changes: Attributes of ``Options`` that override the preset.

    Raises:
        TypeError: Unknown option.
        ValueError: An option is out of range.
    """

    rollout: Rollout
    greedy: Rollout

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.MultiDiscrete,
        lr_schedule: Schedule,
        preset: str = "default",
        graphs: Any = None,
        critic: bool = True,
        use_sde: bool = False,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        self.options = make_options(preset, changes)
        self.greedy_first = self.options.greedy_first
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            graphs,
            critic,
            use_sde,
            optimizer_class,
            optimizer_kwargs,
        )

    def build(self) -> None:
        """Make the networks."""
        self.networks = Networks(self.options, self.n_devices, self.has_critic)
        self.clear_caches()

    def clear_caches(self) -> None:
        """Drop groups and embeddings."""
        self.rollout = Rollout(self.networks, self.options, sampling=True)
        self.greedy = Rollout(self.networks, self.options, sampling=False)

    def clear_stale_caches(self) -> None:
        """Drop groups and embeddings if the weights have changed."""
        if self.rollout.stale:
            self.clear_caches()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row_graph = self.graphs.batch(observation)
        pairs = torch.stack([row_graph, observation["step"].flatten().long()])
        distinct, row = torch.unique(pairs, dim=1, return_inverse=True)
        keys = tuple((graphs.ids[graph], step) for graph, step in distinct.T.tolist())
        rollout = self.greedy if greedy else self.rollout
        logits, values, states = rollout.evaluate(graphs, keys)
        if not greedy and self.options.flips:
            logits = mix_with_uniform(logits, states, self.options.flips)
        distribution = UnitCategorical(logits, states.decides, states.leader, states.allowed, row)
        return Decision(distribution, values[row])

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | asdict(self.options)


def mix_with_uniform(logits: Tensor, states: States, flips: float) -> Tensor:
    """(S, N, D) logits mixed with a uniform choice for an expected number of ``flips`` groups."""
    all_devices = torch.ones_like(logits, dtype=torch.bool)
    allowed = all_devices if states.allowed is None else states.allowed
    probabilities = logits.masked_fill(~allowed, FORBIDDEN).softmax(dim=-1)
    uniform = allowed / allowed.sum(dim=-1, keepdim=True)
    share = (flips / states.decides.sum(dim=1)).clamp(max=MAX_FLIP_SHARE)[:, None, None]
    mixed = (1.0 - share) * probabilities + share * uniform
    return torch.where(allowed, mixed, 1.0).log()


class HSDAGPolicy(HSDAGActor, ActorCriticPolicy):
    """HSDAG for PPO, A2C and REINFORCE; see ``HSDAGActor``."""
