"""HSDAG as an SB3 policy."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor
from torch.nn import functional

from agents.common.distribution import FORBIDDEN, DeviceDistribution, UnitCategorical
from agents.common.graph_policy import check_options
from agents.common.graphs import GraphBatch, TensorDict
from agents.common.group_moves import GroupMoves
from agents.common.policy import Decision, UnitPolicy
from agents.common.room import Room, RoomCategorical
from agents.common.variants import VariantMemory
from agents.hsdag.networks import Groups, Networks, States
from agents.hsdag.options import Options, make_options
from agents.hsdag.rollout import Key, Rollout
from placement_gym.arrays import IntArray
from placement_gym.env import DevicePlacementEnv

MAX_VARIANTS = 16
"""Maximum number of groupings of a graph in a rollout."""
MAX_FLIP_SHARE = 0.5
"""Maximum weight of the uniform distribution in a group's probabilities."""


class HSDAGPolicy(UnitPolicy, ActorCriticPolicy):
    """Learns which units to place together, and where (HSDAG, Duan et al. 2024).

    Args:
        observation_space: See ``UnitPolicy``.
        action_space: See ``UnitPolicy``.
        lr_schedule: See ``UnitPolicy``.
        preset: ``"default"``, ``"hsdag"``, ``"search"`` or ``"paper"``.
        graphs: See ``UnitPolicy``.
        critic: See ``UnitPolicy``.
        use_sde: See ``UnitPolicy``.
        optimizer_class: See ``UnitPolicy``.
        optimizer_kwargs: See ``UnitPolicy``.
        changes: Attributes of ``Options`` that override the preset.

    Raises:
        UserError: Unknown option, or one is out of range.
    """

    rollout: Rollout
    greedy: Rollout
    movement: GroupMoves | None = None
    """Moves groups of the best placement; needs the environment."""
    variants: Tensor | None = None
    """(B,) which grouping each row has, while rows have groups of their own."""

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
        check_options("HSDAGPolicy", changes, self.list_options())
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

    @classmethod
    def list_options(cls) -> set[str]:
        """See ``GraphPolicy``; those of ``Options`` are among them."""
        return super().list_options() | {field.name for field in fields(Options)}

    def explain_trpo_refusal(self, distribution: Any) -> str:
        """See ``GraphPolicy``."""
        if self.options.choose_edges:
            return "groups are chosen with each placement (choose_edges=False fixes them)"
        return super().explain_trpo_refusal(distribution)

    def attach(self, env: DevicePlacementEnv) -> None:
        """See ``GraphPolicy``; groups of the best placement are moved there."""
        if self.options.moves:
            self.movement = GroupMoves(env)

    def build(self) -> None:
        """Make the networks."""
        self.networks = Networks(self.options, self.n_devices, self.has_critic)
        self.clear_caches()

    def clear_caches(self) -> None:
        """Drop groups and embeddings."""
        self.rollout = Rollout(self.networks, self.options, sampling=True)
        self.greedy = Rollout(self.networks, self.options, sampling=False)
        self.memory = VariantMemory()
        self.sampled: dict[int, int] = {}

    def clear_stale_caches(self) -> None:
        """Drop groups and embeddings if the weights have changed."""
        if self.rollout.stale:
            self.clear_caches()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row_graph = self.graphs.batch(observation)
        steps = observation["step"].flatten().long()
        variants = torch.zeros_like(steps) if greedy or self.variants is None else self.variants
        triples = torch.stack([row_graph, steps, variants])
        distinct, row = torch.unique(triples, dim=1, return_inverse=True)
        keys = tuple((graphs.ids[graph], *rest) for graph, *rest in distinct.T.tolist())
        rollout = self.greedy if greedy else self.rollout
        outputs = rollout.evaluate(graphs, keys)
        logits, values, states, groups = outputs
        if not greedy and self.options.flips:
            logits = mix_with_uniform(logits, states, self.options.flips)
        return Decision(self.distribute(graphs, keys, logits, states, row, groups), values[row])

    def distribute(
        self,
        graphs: GraphBatch,
        keys: tuple[Key, ...],
        logits: Tensor,
        states: States,
        row: Tensor,
        groups: Groups,
    ) -> DeviceDistribution:
        """The distribution of the devices of (B,) rows, from the networks' outputs for S states."""
        known = (states.decides, states.leader, states.allowed, row, groups)
        room = Room.of(graphs) if self.options.room else None
        if room is None:
            return UnitCategorical(logits, *known)
        of_states = torch.tensor([graphs.ids.index(key[0]) for key in keys], device=row.device)
        return RoomCategorical(logits, room.take(of_states), *known)

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; with ``choose_edges`` there are several groupings."""
        if deterministic or not self.options.choose_edges:
            return super().forward(obs, deterministic, action_masks)
        self.clear_stale_caches()
        self.variants = rows = self.take_variants(obs["step"])
        actions, values, log_probs = super().forward(obs, deterministic, action_masks)
        self.variants = self.memory.keep(obs, actions, rows)
        if not torch.equal(self.variants, rows):  # a placement keeps the groups of its first time
            values, log_probs, _ = self.evaluate_actions(obs, actions, action_masks)
        self.variants = None
        return actions, values, log_probs

    def take_variants(self, step: Tensor) -> Tensor:
        """(B,) groupings of the next rows, in turn; ``step``: (B, 1) of the episode."""
        variants = []
        for at in step.flatten().tolist():
            known = self.sampled.get(at, 0)
            variants.append(known % MAX_VARIANTS)
            self.sampled[at] = known + 1
        return torch.tensor(variants, device=step.device)

    def follow(self, best: IntArray) -> None:
        """See ``UnitPolicy``."""
        if self.movement is not None:
            self.movement.follow(best)

    def take_proposals(self, obs: Any, actions: Tensor, action_masks: Any) -> Tensor:
        """See ``UnitPolicy``; behind them are moves of groups of the best placement."""
        proposed = super().take_proposals(obs, actions, action_masks)
        begin, n_moves = len(proposed), round(self.options.moves * len(actions))
        end = min(begin + n_moves, len(actions))
        if begin == end or self.movement is None or not len(self.movement.best):
            return proposed
        decision = self.apply_masks(self.decide(obs), action_masks)
        known = decision.distribution.conditioned_on(actions)
        assert isinstance(known, UnitCategorical)
        assert known.leader is not None
        n = self.movement.n_units
        leader = known.leader[begin:end, :n].cpu().numpy()
        probability = known.log_probs[begin:end, :n].detach().exp().double().cpu().numpy()
        rng = np.random.default_rng(int(torch.randint(2**31, ())))
        moved = proposed.new_zeros(end - begin, actions.shape[1])
        moved[:, :n] = torch.as_tensor(self.movement.move(leader, probability, rng))
        return torch.cat([proposed, moved])

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``UnitPolicy``; groups are those that the placements were sampled with."""
        if self.options.choose_edges:
            self.variants = self.memory.recall(obs, actions)
        found = super().evaluate_actions(obs, actions, action_masks)
        self.variants = None
        return found

    def unit_log_prob(self, obs: Any, actions: Tensor) -> Tensor:
        """See ``UnitPolicy``; with ``choose_edges`` edges within a device should be kept, too."""
        found = super().unit_log_prob(obs, actions)
        if not self.options.choose_edges:
            return found
        graphs, row_graph = self.graphs.batch(obs)
        keys = tuple((graph_id, 0, 0) for graph_id in graphs.ids)
        states = self.greedy.evaluate(graphs, keys).states
        assert states.choices is not None
        z = self.greedy.embeddings_of(graphs)
        scores = self.networks.score_edges(
            self.networks.shift_embeddings(z, states.shift), states.choices.ends
        )
        return found + rate_edges(scores, states, actions.long(), row_graph)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | asdict(self.options)


def rate_edges(scores: Tensor, states: States, actions: Tensor, row_graph: Tensor) -> Tensor:
    """(B,) mean log-probability that edges are kept within a device and cut between two.

    Args:
        scores: (k,) of the edges that prediction chooses among.
        states: One per graph.
        actions: (B, N) devices.
        row_graph: (B,) graph of each row.
    """
    assert states.choices is not None
    ends, owner = states.slot[states.choices.ends], states.choices.state
    within = actions[:, ends[0]] == actions[:, ends[1]]
    rated = functional.logsigmoid(torch.where(within, scores, -scores))
    mine = owner == row_graph[:, None]
    return (rated * mine).sum(dim=1) / mine.sum(dim=1).clamp(min=1)


def mix_with_uniform(logits: Tensor, states: States, flips: float) -> Tensor:
    """(S, N, D) logits mixed with a uniform choice for an expected number of ``flips`` groups."""
    all_devices = torch.ones_like(logits, dtype=torch.bool)
    allowed = all_devices if states.allowed is None else states.allowed
    probabilities = logits.masked_fill(~allowed, FORBIDDEN).softmax(dim=-1)
    uniform = allowed / allowed.sum(dim=-1, keepdim=True)
    share = (flips / states.decides.sum(dim=1)).clamp(max=MAX_FLIP_SHARE)[:, None, None]
    mixed = (1.0 - share) * probabilities + share * uniform
    return torch.where(allowed, mixed, 1.0).log()
