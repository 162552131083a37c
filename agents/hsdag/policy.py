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
from agents.hsdag.options import options
from agents.hsdag.rollout import Rollout

MOST_FLIPS = 0.5
"""Share of a group's probability that a uniform choice takes at most."""


class HSDAGActor(UnitPolicy):
    """HSDAG's decisions, for any SB3 base class.

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
        changes: Attributes of ``Options`` that differ from the preset.

    Raises:
        TypeError: No such option.
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
        self.options = options(preset, changes)
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
        """Make groups anew."""
        self.rollout = Rollout(self.networks, self.options, sampling=True)
        self.greedy = Rollout(self.networks, self.options, sampling=False)

    def renew(self) -> None:
        """Make groups anew if the weights have changed."""
        if self.rollout.stale:
            self.clear_caches()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row_graph = self.graphs.batch(observation)
        pairs = torch.stack([row_graph, observation["step"].flatten().long()])
        distinct, row = torch.unique(pairs, dim=1, return_inverse=True)
        keys = tuple((graphs.ids[graph], step) for graph, step in distinct.T.tolist())
        rollout = self.greedy if greedy else self.rollout
        logits, values, states = rollout.answer(graphs, keys)
        if not greedy and self.options.flips:
            logits = explored(logits, states, self.options.flips)
        distribution = UnitCategorical(logits, states.decides, states.leader, states.allowed, row)
        return Decision(distribution, values[row])

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | asdict(self.options)


def explored(logits: Tensor, states: States, flips: float) -> Tensor:
    """(S, N, D) logits mixed with a uniform choice, which ``flips`` groups are expected to take."""
    everything = torch.ones_like(logits, dtype=torch.bool)
    allowed = everything if states.allowed is None else states.allowed
    likely = logits.masked_fill(~allowed, FORBIDDEN).softmax(dim=-1)
    uniform = allowed / allowed.sum(dim=-1, keepdim=True)
    share = (flips / states.decides.sum(dim=1)).clamp(max=MOST_FLIPS)[:, None, None]
    mixed = (1.0 - share) * likely + share * uniform
    return torch.where(allowed, mixed, 1.0).log()


class HSDAGPolicy(HSDAGActor, ActorCriticPolicy):
    """HSDAG for PPO, A2C and REINFORCE; see ``HSDAGActor``."""
