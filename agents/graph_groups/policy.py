"""Groups that are drawn with each placement, by a graph network, as an SB3 policy."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from agents.common import Decision, TensorDict, UnitPolicy
from agents.graph_groups.following import FollowingDevices
from agents.graph_groups.networks import GraphGroupsOptions, Networks, Tables, find_leader_slots
from placement_gym.base import check_integer

WINDOW = "window"
"""Name in a rollout's observations of the (N,) bool units whose devices were drawn."""


class GraphGroupsPolicy(UnitPolicy, ActorCriticPolicy):
    """Draws with each placement which units follow their latest producer, and the others' devices.

    Args:
        args: See ``UnitPolicy``.
        kwargs: Attributes of ``GraphGroupsOptions``, and what ``UnitPolicy`` takes.

    Raises:
        UserError: Unknown option, or one is out of range.
    """

    Options = GraphGroupsOptions
    options: GraphGroupsOptions
    redraws: Any = None
    """The ``Redraws`` of this rollout; None draws whole placements."""

    def build(self) -> None:
        """Make the networks, and a table for each graph that is known."""
        check_integer("groups", self.options.groups, 1)
        self.networks = Networks(self.options, self.n_devices, self.has_critic)
        graphs = (self.table or {}) if self.options.table else {}
        self.tables = Tables(graphs, self.n_slots, self.n_devices)

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; or only the units of windows are drawn."""
        if self.redraws is None or deterministic:
            return super().forward(obs, deterministic, action_masks)
        # The likelihood is that of the window's units given the others: the rest of the placement
        # was not drawn, and its gradient would be noise.
        distribution, values = self.apply_masks(self.decide(obs), action_masks)
        actions, window = self.redraws.draw(obs, distribution)
        assert isinstance(distribution, FollowingDevices)
        return actions, values, distribution.within(window, actions).log_prob(actions)

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; where only windows were drawn, of the units in them."""
        if WINDOW not in obs:
            return super().evaluate_actions(obs, actions, action_masks)
        distribution, values = self.apply_masks(self.decide(obs), action_masks)
        assert isinstance(distribution, FollowingDevices)
        likelihood = distribution.within(obs[WINDOW].bool(), actions)
        return values, likelihood.log_prob(actions), likelihood.entropy()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row = self.graphs.batch(observation)
        own, keep, values = self.networks(graphs)
        own = self.tables.correct(own, graphs.ids)
        keep = self.tables.correct(keep[..., None], graphs.ids, "keep")[..., 0]
        mask, allowed = graphs.node_mask, graphs.allowed_slots
        devices = FollowingDevices(own, keep, find_leader_slots(graphs), mask, allowed, row)
        return Decision(devices, values[row])
