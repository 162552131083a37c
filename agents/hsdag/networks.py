"""HSDAG's networks, in the order of the paper: embeddings, edge scores, groups, devices (2.3, 2.4).

What differs from the paper is said where it happens, and listed in this folder's README.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.common.encoder import Conv, Encoder
from agents.common.following import first_keep
from agents.common.graph_policy import make_perceptron
from agents.common.graphs import MIN_COST, GraphBatch
from agents.common.pyg import scatter
from placement_gym.envs.observation import FEATURES


@dataclass(frozen=True)
class HSDAGOptions:
    """Options of ``HSDAGPolicy``, given as ``policy_kwargs``; saved models name them.

    Attributes:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES`` for the encoder.
        hidden: Width of an embedding.
        layers: Number of graph convolutions; 0 ignores the edges.
        conv: See ``agents.common.encoder.Encoder``: a name, or a class as ``SAGEConv``.
        directed: Whether messages from producers and from consumers have separate weights.
        dropout: Dropout while groups are parsed in rollouts; likelihoods are computed without it.
        depth: Levels of parsing; 0 makes every unit a group of its own.
        gate: Whether a group's embedding is gated by the mean score of its kept edges.
        cost_weight: Initial weight of the logarithm of a group's time on a device in the logits,
            if the observation has costs; 0 leaves the term out.
        groups: 0 parses groups by the dominant edges, as published. Else groups are drawn with each
            placement, at first about so many: a unit follows its latest producer with the
            probability that the score of their edge gives.
        table: Whether the logits of each graph in ``graphs`` have a table as a further term, where
            groups are drawn: the networks hold for all graphs, the tables for one each.
        devices: Whether limits, transfers and times on one scale are read, too, as a policy for
            several problems needs; see ``agents.common.unit_device_features``.
    """

    features: tuple[str, ...]
    hidden: int = 128
    layers: int = 2
    conv: Conv = "gcn"
    directed: bool = True
    dropout: float = 0.2
    depth: int = 1
    gate: bool = True
    cost_weight: float = 0.0
    groups: int = 0
    table: bool = False
    devices: bool = False


@dataclass(frozen=True, eq=False)
class States:
    """A batch of S states: graphs with their groups; a graph may occur in several states.

    Attributes:
        node: (m,) index of each state node in the graphs' batch.
        state: (m,) state of each node.
        shift: (m, hidden) sum of what earlier steps of the episode added to its embedding.
        group: (m,) group of each node, numbered over all states.
        kept: (2, k) nodes of the kept edges, which connect the groups.
        slot: (m,) index of each node among the padded units.
        leader: (S, N) the padded unit that each padded unit follows.
        decides: (S, N) bool, whether a unit is a leader; False for padding.
        allowed: (S, N, D) bool, devices that all followers of a unit allow; None allows all.
    """

    node: Tensor
    state: Tensor
    shift: Tensor
    group: Tensor
    kept: Tensor
    slot: Tensor
    leader: Tensor
    decides: Tensor
    allowed: Tensor | None


class Networks(nn.Module):
    """Encoder, edge scorer phi, placer, and a critic for algorithms that need one.

    Args:
        options: Sizes and switches.
        n_devices: Number of devices.
        critic: Whether to build a critic.
    """

    def __init__(self, options: HSDAGOptions, n_devices: int, critic: bool) -> None:
        super().__init__()
        hidden = options.hidden
        self.encoder = Encoder(
            options.features,
            hidden,
            options.layers,
            options.conv,
            options.directed,
            options.dropout,
            n_devices if options.devices else 0,
        )
        self.scorer = make_perceptron(hidden, hidden, 1) if options.depth else None
        self.gated = options.gate
        self.placer = make_perceptron(hidden, hidden, n_devices)
        self.critic = make_perceptron(hidden, hidden, 1) if critic else None
        first = FEATURES["cost"].start
        self.costs = slice(first, first + n_devices)
        self.groups = options.groups
        weight = nn.Parameter(torch.tensor(options.cost_weight))
        self.cost_weight = weight if options.cost_weight else None

    def encode(self, graphs: GraphBatch, noisy: bool = False) -> Tensor:
        """(n, hidden) embeddings Z of the nodes' features X (2.3).

        Args:
            graphs: The graphs.
            noisy: Whether dropout is applied.
        """
        z: Tensor = self.encoder(graphs, noisy=noisy)
        return z

    def shift_embeddings(self, z: Tensor, shift: Tensor) -> Tensor:
        """(n, hidden) Z + Z', normalised.

        Deviation: the paper's sum is not normalised. It doubles at each step and would overflow
        within 50.
        """
        return functional.layer_norm(z + shift, z.shape[1:])

    def score_edges(self, z: Tensor, edges: Tensor) -> Tensor:
        """(e,) logits of the scores S_uv = sigmoid(phi(z_u * z_v)) of edges (2, e)."""
        assert self.scorer is not None
        scores: Tensor = self.scorer(z.index_select(0, edges[0]) * z.index_select(0, edges[1]))
        return scores[:, 0]

    def pool_groups(self, z: Tensor, group: Tensor, kept: Tensor) -> Tensor:
        """(n_groups, hidden) embedding of each group, gated by the mean score of its kept edges.

        The gate is the only way of a gradient to phi. Deviation: the mean of a group's embeddings,
        not their sum, so that large groups do not outgrow small ones from step to step.

        Args:
            z: (n, hidden) embeddings.
            group: (n,) group of each node.
            kept: (2, k) nodes of the kept edges.
        """
        n_groups = int(group.max()) + 1
        pooled = scatter(z, group, dim_size=n_groups, reduce="mean")
        if not kept.shape[1] or not self.gated:
            return pooled
        owner = group[kept[0]]
        total = scatter(self.score_edges(z, kept).sigmoid(), owner, dim_size=n_groups)
        count = torch.bincount(owner, minlength=n_groups)
        gate = torch.where(count > 0, total / count.clamp(min=1), 1.0)
        return pooled * gate[:, None]

    def place_groups(self, pooled: Tensor, graphs: GraphBatch, states: States) -> Tensor:
        """(n_groups, D) logits of the groups' devices, from their embeddings (n_groups, hidden)."""
        cost = scatter(graphs.x[states.node, self.costs], states.group, reduce="sum")
        return self.prefer(pooled, cost)

    def prefer(self, z: Tensor, cost: Tensor) -> Tensor:
        """(k, D) logits of devices, from (k, hidden) embeddings and (k, D) times on them."""
        logits: Tensor = self.placer(z)
        if self.cost_weight is None:
            return logits
        return logits - self.cost_weight * (cost + MIN_COST).log()

    def forward(self, z: Tensor, graphs: GraphBatch, states: States) -> tuple[Tensor, Tensor]:
        """(S, N, D) logits of padded units, each its group's, and (S, 1) values.

        Args:
            z: (n, hidden) embeddings of the graphs' nodes.
            graphs: The graphs.
            states: The states to decide on.
        """
        z = self.shift_embeddings(z.index_select(0, states.node), states.shift)
        of_groups = self.place_groups(
            self.pool_groups(z, states.group, states.kept), graphs, states
        )
        n_states, n_slots = states.decides.shape
        logits = of_groups.new_zeros(n_states, n_slots, of_groups.shape[1])
        logits[states.state, states.slot] = of_groups.index_select(0, states.group)
        return logits, self.compute_values(scatter(z, states.state, reduce="mean"))

    def compute_values(self, pooled: Tensor) -> Tensor:
        """(S, 1) values from (S, hidden) mean embeddings; zeros without a critic."""
        if self.critic is None:
            return pooled.new_zeros(len(pooled), 1)
        values: Tensor = self.critic(pooled)
        return values

    def choose(self, z: Tensor, graphs: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of units where groups are drawn: of their own choices, and of following.

        Args:
            z: (n, hidden) embeddings of the graphs' nodes.
            graphs: The graphs.

        Returns:
            (G, N, D) and (G, N) logits, and (G, 1) values.
        """
        z = functional.layer_norm(z, z.shape[1:])
        own = self.prefer(z, graphs.x[:, self.costs])
        edges = torch.stack([graphs.latest_producer, torch.arange(len(z), device=z.device)])
        n_units = graphs.node_mask.sum(dim=1)[graphs.batch]
        keep = first_keep(n_units, self.groups) + self.score_edges(z, edges)
        values = self.compute_values(scatter(z, graphs.batch, reduce="mean"))
        return graphs.pad(own), graphs.pad(keep[:, None])[..., 0], values
