"""Placeto as an SB3 policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor
from torch.nn import functional

from agents.common import (
    COLUMNS,
    Decision,
    FreeMemory,
    GraphPolicy,
    LRUCache,
    TensorDict,
    UnitCategorical,
)
from agents.placeto.networks import EPSILON, Networks, Structure
from placement_gym.base import UserError
from placement_gym.envs import FEATURES, read_current_unit, read_indices

STATE_KEYS = ("placement", "visited", "current_unit", "start")


@dataclass(frozen=True)
class PlacetoOptions:
    """Options of ``PlacetoPolicy``; saved models name them.

    Attributes:
        hidden: Width of an embedding in one direction.
        rounds: Number of message rounds.
        devices: Whether the policy reads limits, transfers and times on one scale, see
            ``agents.common.devices``; the paper's reads times alone.
        respect_memory: Whether it only chooses devices with room left for the unit; limits are read
            as with ``devices``.
    """

    hidden: int = 8
    rounds: int = 8
    devices: bool = False
    respect_memory: bool = False


class PlacetoPolicy(GraphPolicy, ActorCriticPolicy):
    """Chooses the device of one unit after another, in any graph (Addanki et al. 2019).

    Takes the options of ``PlacetoOptions`` and the arguments of ``GraphPolicy``.
    """

    Options = PlacetoOptions
    options: PlacetoOptions

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Discrete,
        lr_schedule: Schedule,
        use_sde: bool = False,
        **options: Any,
    ) -> None:
        if not set(STATE_KEYS) <= set(observation_space.spaces) or use_sde:
            raise UserError(
                "PlacetoPolicy places one unit per step: use DevicePlacementPerUnit-v0 or "
                f"DevicePlacementPerUnitSim-v0 without use_sde, not actions {action_space}"
            )
        self.n_slots, self.n_devices = 1, int(action_space.n)
        super().__init__(observation_space, action_space, lr_schedule, **options)

    def build(self) -> None:
        work, options = FEATURES["work"], self.options
        per_device = 1 + len(COLUMNS) * options.devices
        n_static = per_device * self.n_devices + work.stop - work.start
        self.networks = Networks(
            n_static, self.n_devices, options.hidden, options.rounds, self.has_critic
        )
        self.structures: LRUCache[int, Structure] = LRUCache()

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """Decide on the devices of the current units."""
        graphs, row_graph = self.graphs.batch(observation)
        n_rows, device = len(row_graph), row_graph.device
        logits = torch.zeros(n_rows, self.n_devices, device=device)
        values = torch.zeros(n_rows, 1, device=device)
        allowed = torch.ones(n_rows, self.n_devices, dtype=torch.bool, device=device)
        # graph by graph, as each has its own messages and relations
        for graph, graph_id in enumerate(graphs.ids):
            if graph_id not in self.structures:
                self.structures[graph_id] = Structure.from_batch(
                    graphs, graph, self.n_devices, self.options.devices
                )
            structure, rows = self.structures[graph_id], (row_graph == graph).nonzero()[:, 0]
            states = {key: observation[key].index_select(0, rows) for key in STATE_KEYS}
            states["placement"] = read_indices(states["placement"], self.n_devices)
            current = read_current_unit(states)[:, 0]
            x = make_inputs(structure, states, current, self.n_devices)
            summary = self.networks.summarize(x, structure, current)
            logits = logits.index_copy(0, rows, self.networks.placer(summary))
            if self.networks.critic is not None:
                values = values.index_copy(0, rows, self.networks.critic(summary))
            if structure.allowed is not None:
                allowed[rows] = structure.allowed[current]
            if self.options.respect_memory:
                memory = FreeMemory.from_batch(graphs, torch.full_like(current, graph))
                used = memory.count_used(states["placement"], states["visited"])
                allowed[rows] &= memory.mask(current, used)
        devices = UnitCategorical(logits[:, None], allowed=allowed[:, None])
        return Decision(devices, values if self.has_critic else None)


def make_inputs(
    structure: Structure, states: TensorDict, current: Tensor, n_devices: int
) -> Tensor:
    """(n, B, S + 3 + n_devices) inputs of the units in B states of one graph.

    These are the static columns; then, as in the paper, 1 if the unit has been visited, 1 if it is
    the current one, its start relative to the current unit's over the largest of these, and its
    device one-hot.
    """
    n, n_states = len(structure.static), len(current)
    start = states["start"][:, :n].float()
    start = start - start.gather(1, current[:, None])
    start = start / start.abs().amax(dim=1, keepdim=True).clamp(min=EPSILON)
    visited = states["visited"][:, :n].float()
    is_current = functional.one_hot(current, n).float()
    placed = functional.one_hot(states["placement"][:, :n], n_devices).float()
    dynamic = torch.cat([torch.stack([visited, is_current, start], dim=2), placed], dim=2)
    static = structure.static[:, None].expand(-1, n_states, -1)
    return torch.cat([static, dynamic.transpose(0, 1)], dim=2)
