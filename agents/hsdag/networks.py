"""HSDAG's networks: encoder, edge scorer, pooling and placer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.utils import scatter

from agents.common.encoder import Encoder
from agents.common.graph_policy import perceptron
from agents.common.graphs import GraphBatch
from agents.hsdag.options import Options
from placement_gym.observation import FEATURES

LEAST_COST = 1e-3
"""Of a mean unit's time; less makes no difference."""


@dataclass(frozen=True, eq=False)
class States:
    """What is decided about: graphs with their groups, one or several times each, as one batch.

    Attributes:
        node: (m,) node of the graphs' batch that each node of the states is.
        state: (m,) which state it belongs to.
        shift: (m, hidden) what earlier placements of the episode have added to its embedding.
        group: (m,) its group, numbered over all states.
        inner: (2, k) nodes of the edges that hold the groups together.
        slot: (m,) its place among padded units.
        leader: (S, N) padded unit that each padded unit follows.
        decides: (S, N) bool, whether it leads and is none of the padding.
        allowed: (S, N, D) bool, what all followers of a unit allow; None allows everything.
    """

    node: Tensor
    state: Tensor
    shift: Tensor
    group: Tensor
    inner: Tensor
    slot: Tensor
    leader: Tensor
    decides: Tensor
    allowed: Tensor | None


class Networks(nn.Module):
    """Steps two to four of HSDAG.

    Args:
        options: Sizes and switches.
        n_devices: Devices to choose from.
        critic: Whether there is a critic.
    """

    def __init__(self, options: Options, n_devices: int, critic: bool) -> None:
        super().__init__()
        hidden = options.hidden
        self.encoder = Encoder(
            options.features,
            hidden,
            options.layers,
            options.conv,
            options.directed,
            options.dropout,
        )
        self.scorer = perceptron(hidden, hidden, 1) if options.grouping else None
        self.placer = perceptron(hidden, hidden, n_devices, gain=0.0)
        self.critic = perceptron(hidden, hidden, 1) if critic else None
        first = FEATURES["cost"].start
        self.costs = slice(first, first + n_devices)
        weight = torch.tensor(options.cost_weight)
        self.cost_weight = nn.Parameter(weight) if options.cost_weight else None

    def state(self, z: Tensor, shift: Tensor) -> Tensor:
        """(n, hidden) embeddings after what earlier placements added; their scale stays."""
        return functional.layer_norm(z + shift, z.shape[1:])

    def scores(self, z: Tensor, edges: Tensor) -> Tensor:
        """(e,) logits of edges (2, e) between nodes of embeddings z: phi(z_u * z_v)."""
        assert self.scorer is not None
        scores: Tensor = self.scorer(z.index_select(0, edges[0]) * z.index_select(0, edges[1]))
        return scores[:, 0]

    def pooled(self, z: Tensor, group: Tensor, inner: Tensor) -> Tensor:
        """(n_groups, hidden) mean embedding of each group times the mean score of its edges."""
        n_groups = int(group.max()) + 1
        pooled = scatter(z, group, dim_size=n_groups, reduce="mean")
        if not inner.shape[1]:
            return pooled
        owner = group[inner[0]]
        total = scatter(self.scores(z, inner).sigmoid(), owner, dim_size=n_groups)
        count = torch.bincount(owner, minlength=n_groups)
        gate = torch.where(count > 0, total / count.clamp(min=1), 1.0)
        return pooled * gate[:, None]

    def forward(self, z: Tensor, graphs: GraphBatch, states: States) -> tuple[Tensor, Tensor]:
        """(S, N, D) logits of padded units and (S, 1) values.

        Args:
            z: (n, hidden) embeddings of the graphs.
            graphs: What the states are about.
            states: S of them.
        """
        z = self.state(z.index_select(0, states.node), states.shift)
        of_groups = self.placer(self.pooled(z, states.group, states.inner))
        if self.cost_weight is not None:
            cost = scatter(graphs.x[states.node, self.costs], states.group, reduce="sum")
            of_groups = of_groups - self.cost_weight * (cost + LEAST_COST).log()
        n_states, n_slots = states.decides.shape
        logits = of_groups.new_zeros(n_states, n_slots, of_groups.shape[1])
        logits[states.state, states.slot] = of_groups.index_select(0, states.group)
        if self.critic is None:
            return logits, logits.new_zeros(n_states, 1)
        values: Tensor = self.critic(scatter(z, states.state, reduce="mean"))
        return logits, values
