"""Groups that are drawn with each placement, by a graph network, as an SB3 policy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn
from torch.nn import functional

from agents.common.encoder import Encoder
from agents.common.following import FollowingDevices, first_keep
from agents.common.graph_policy import make_perceptron
from agents.common.graphs import MIN_COST, GraphBatch, TensorDict
from agents.common.policy import Decision, UnitPolicy
from agents.common.pyg import scatter
from agents.graph_groups.tables import Tables
from placement_gym.base.arguments import check_integer
from placement_gym.envs.observation import FEATURES


@dataclass(frozen=True)
class GraphGroupsOptions:
    """Options of ``GraphGroupsPolicy``, given as ``policy_kwargs``; saved models name them.

    Attributes:
        hidden: Width of an embedding.
        layers: Number of graph convolutions; 0 ignores the edges.
        cost_weight: Initial weight of the logarithm of a unit's time on a device in the logits.
        groups: Groups of the first placements, about.
        table: Whether the logits of each graph in ``graphs`` have a table as a further term: the
            networks hold for all graphs, the tables for one each.
        devices: Whether limits, transfers and times on one scale are read, too, as a policy for
            several problems needs; see ``agents.common.unit_device_features``.
    """

    hidden: int = 128
    layers: int = 2
    cost_weight: float = 2.0
    groups: int = 30
    table: bool = True
    devices: bool = False


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

    def build(self) -> None:
        """Make the networks, and a table for each graph that is known."""
        check_integer("groups", self.options.groups, 1)
        self.networks = Networks(self.options, self.n_devices, self.has_critic)
        graphs = (self.table or {}) if self.options.table else {}
        self.tables = Tables(graphs, self.n_slots, self.n_devices)

    @property
    def draws_groups(self) -> bool:
        """See ``UnitPolicy``."""
        return True

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row = self.graphs.batch(observation)
        own, keep, values = self.networks(graphs)
        own = self.tables.correct(own, graphs.ids)
        keep = self.tables.correct(keep[..., None], graphs.ids, "keep")[..., 0]
        mask, allowed = graphs.node_mask, graphs.allowed_slots
        devices = FollowingDevices(own, keep, graphs.leader_slots, mask, allowed, row)
        return Decision(devices, values[row])


class Networks(nn.Module):
    """Encoder, scorer of following, placer, and a critic for algorithms that need one."""

    def __init__(self, options: GraphGroupsOptions, n_devices: int, critic: bool) -> None:
        super().__init__()
        hidden, self.groups = options.hidden, options.groups
        sees = n_devices if options.devices else 0
        self.encoder = Encoder(hidden=hidden, layers=options.layers, n_devices=sees)
        self.scorer = make_perceptron(hidden, hidden, 1)
        self.placer = make_perceptron(hidden, hidden, n_devices)
        self.critic = make_perceptron(hidden, hidden, 1) if critic else None
        first = FEATURES["cost"].start
        self.costs = slice(first, first + n_devices)
        weight = nn.Parameter(torch.tensor(options.cost_weight))
        self.cost_weight = weight if options.cost_weight else None

    def forward(self, graphs: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
        """(G, N, D) logits of own choices, (G, N) of following, and (G, 1) values."""
        z: Tensor = self.encoder(graphs)
        z = functional.layer_norm(z, z.shape[1:])
        own = self.placer(z)
        if self.cost_weight is not None:
            own = own - self.cost_weight * (graphs.x[:, self.costs] + MIN_COST).log()
        n_units = graphs.node_mask.sum(dim=1)[graphs.batch]
        follows = self.scorer(z[graphs.latest_producer] * z)[:, 0]
        keep = first_keep(n_units, self.groups) + follows
        pooled = scatter(z, graphs.batch, reduce="mean")
        values = pooled.new_zeros(len(pooled), 1) if self.critic is None else self.critic(pooled)
        return graphs.pad(own), graphs.pad(keep[:, None])[..., 0], values
