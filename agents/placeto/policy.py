"""Placeto as an SB3 policy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import CategoricalDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor
from torch.nn import functional

from agents.common.distribution import UnitCategorical
from agents.common.free_memory import FreeMemory
from agents.common.graph_policy import GraphPolicy, GraphTable
from agents.common.graphs import Recent, TensorDict
from agents.common.unit_device_features import COLUMNS
from agents.placeto.networks import EPSILON, Networks, Structure
from placement_gym.base.errors import UserError
from placement_gym.envs.observation import FEATURES

STATE_KEYS = ("placement", "visited", "current_unit", "start_ms")


class Choice(NamedTuple):
    """The output of the policy for (B, ...) observations.

    Attributes:
        distribution: Distribution of the current unit's device.
        values: (B, 1) expected returns, zero without a critic.
    """

    distribution: UnitCategorical
    values: Tensor


class PlacetoPolicy(GraphPolicy, ActorCriticPolicy):
    """Chooses the device of one unit after another, in any graph (Addanki et al. 2019).

    Args:
        observation_space: Observation space of an environment with one unit per step.
        action_space: Action space of that environment.
        lr_schedule: Learning rate schedule of the algorithm.
        graphs: See ``GraphPolicy``.
        critic: See ``GraphPolicy``.
        hidden: Width of an embedding in one direction.
        rounds: Number of message rounds.
        devices: Whether limits, transfers and times on one scale are seen, see
            ``agents.common.unit_device_features``. The paper sees times alone.
        respect_memory: Whether a unit moves only where it fits, and free memory is seen. The
            paper has no limits.
        use_sde: Must be False: actions are discrete.
        optimizer_class: As for SB3's policies.
        optimizer_kwargs: As for SB3's policies.
        unknown: See ``GraphPolicy``.

    Raises:
        UserError: There is no such option; or the environment places all units at once, or
            ``use_sde`` is set.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Discrete,
        lr_schedule: Schedule,
        graphs: GraphTable | None = None,
        critic: bool = True,
        hidden: int = 8,
        rounds: int = 8,
        devices: bool = False,
        respect_memory: bool = False,
        use_sde: bool = False,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        **unknown: Any,
    ) -> None:
        if not set(STATE_KEYS) <= set(observation_space.spaces) or use_sde:
            raise UserError(
                "PlacetoPolicy places one unit per step: use DevicePlacementPerUnit-v0 or "
                f"DevicePlacementPerUnitSim-v0 without use_sde, not actions {action_space}"
            )
        self.n_devices = int(action_space.n)
        self.sizes = {"hidden": hidden, "rounds": rounds}
        self.switches = {"devices": devices, "respect_memory": respect_memory}
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            graphs,
            critic,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            **unknown,
        )

    def build(self) -> None:
        """Make the networks."""
        work = FEATURES["work"]
        n_static = self.n_devices + work.stop - work.start
        if self.switches["devices"]:
            n_static += self.n_devices * len(COLUMNS)
        if self.switches["respect_memory"]:
            n_static += self.n_devices
        self.networks = Networks(n_static, self.n_devices, **self.sizes, critic=self.has_critic)
        self.structures: Recent[int, Structure] = Recent()

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B,) actions, (B, 1) values and (B,) log-probabilities."""
        distribution, values = self.apply_masks(self.decide(obs), action_masks)
        actions = distribution.get_actions(deterministic)
        return actions[:, 0], values, distribution.log_prob(actions)

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B, 1) values, (B,) log-probabilities and (B,) entropies of (B,) actions."""
        distribution, values = self.apply_masks(self.decide(obs), action_masks)
        return values, distribution.log_prob(actions[:, None]), distribution.entropy()

    def get_distribution(self, obs: Any, action_masks: Any = None) -> Any:
        """The distribution of the current unit's device for (B, ...) observations."""
        units = self.apply_masks(self.decide(obs), action_masks).distribution
        log_probs = self.check_distribution(units).log_probs[:, 0]
        return CategoricalDistribution(self.n_devices).proba_distribution(log_probs)

    def predict_values(self, obs: Any) -> Tensor:
        """(B, 1) expected returns."""
        return self.decide(obs).values

    def _predict(self, observation: Any, deterministic: bool = False) -> Tensor:
        decision = self.apply_masks(self.decide(observation), self.masks)
        return decision.distribution.get_actions(deterministic)[:, 0]

    def apply_masks(self, choice: Choice, action_masks: Any) -> Choice:
        """Restrict the choice to the devices that (B, D) masks of the environment allow."""
        if action_masks is None:
            return choice
        distribution, values = choice
        masks = torch.as_tensor(np.asarray(action_masks), device=values.device).bool()
        return Choice(distribution.restricted_to(masks.reshape(len(values), 1, -1)), values)

    def decide(self, observation: TensorDict) -> Choice:
        """Decide on the current units of (B, ...) observations."""
        graphs, row_graph = self.graphs.batch(observation)
        n_rows, device = len(row_graph), row_graph.device
        logits = torch.zeros(n_rows, self.n_devices, device=device)
        values = torch.zeros(n_rows, 1, device=device)
        allowed = torch.ones(n_rows, self.n_devices, dtype=torch.bool, device=device)
        # messages and relations are those of one graph, so that rows are decided graph by graph
        for graph, graph_id in enumerate(graphs.ids):
            if graph_id not in self.structures:
                self.structures[graph_id] = Structure.of(
                    graphs,
                    graph,
                    self.n_devices,
                    **self.switches,
                )
            structure, rows = self.structures[graph_id], (row_graph == graph).nonzero()[:, 0]
            states = {key: observation[key].index_select(0, rows) for key in STATE_KEYS}
            current = states["current_unit"][:, 0].long()
            x = make_inputs(structure, states, current, self.n_devices)
            summary = self.networks.summarize(x, structure, current)
            logits = logits.index_copy(0, rows, self.networks.placer(summary))
            if self.networks.critic is not None:
                values = values.index_copy(0, rows, self.networks.critic(summary))
            if structure.allowed is not None:
                allowed[rows] = structure.allowed[current]
            if structure.memory is not None:
                free, held = leave(structure.memory, states["placement"].long(), current)
                allowed[rows] = structure.memory.restrict(allowed[rows], free, held)
        return Choice(UnitCategorical(logits[:, None], allowed=allowed[:, None]), values)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | self.sizes | self.switches


def leave(memory: FreeMemory, placement: Tensor, current: Tensor) -> tuple[Tensor, Tensor]:
    """Compute free memory of devices without the current units, and the bytes of these.

    Args:
        memory: Of the n units, one row.
        placement: (B, N) devices of padded units.
        current: (B,) current units.

    Returns:
        (B, D) and (B,) float64 shares of the model's bytes.
    """
    held = memory.held.expand(len(current), -1).clone()
    rows = torch.arange(len(current), device=current.device)
    mine = held[rows, current]
    held[rows, current] = 0.0
    used = torch.zeros(len(current), memory.limits.shape[1], dtype=held.dtype, device=held.device)
    used.scatter_add_(1, placement[:, : held.shape[1]], held)
    return memory.limits - memory.share(used[None])[0], mine


def make_inputs(
    structure: Structure, states: TensorDict, current: Tensor, n_devices: int
) -> Tensor:
    """(n, B, S + 3 + n_devices) inputs of the units in B states of one graph.

    The static columns; then, as in the paper, 1 if a unit has been visited, 1 if it is the current
    one, its start time relative to the current unit's divided by the largest of these, and its
    device one-hot; with ``respect_memory`` also the free memory of each device.
    """
    n, n_states = len(structure.static), len(current)
    start = states["start_ms"][:, :n].float()
    start = start - start.gather(1, current[:, None])
    start = start / start.abs().amax(dim=1, keepdim=True).clamp(min=EPSILON)
    visited = states["visited"][:, :n].float()
    is_current = functional.one_hot(current, n).float()
    placed = functional.one_hot(states["placement"][:, :n].long(), n_devices).float()
    dynamic = torch.cat([torch.stack([visited, is_current, start], dim=2), placed], dim=2)
    parts = [structure.static[:, None].expand(-1, n_states, -1), dynamic.transpose(0, 1)]
    if structure.memory is not None:
        free, _ = leave(structure.memory, states["placement"].long(), current)
        parts.append(free.clamp(0.0, 1.0).float()[None].expand(n, -1, -1))
    return torch.cat(parts, dim=2)
