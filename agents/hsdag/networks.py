"""HSDAG's networks, in the order of the paper: embeddings, edge scores, groups, devices (2.3, 2.4).

Deviations from the paper are marked, and listed in this folder's README.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.common import COST, MIN_COST, Conv, Encoder, make_perceptron, scatter

PAPER_FEATURES = ("type", "shape", "in_degree", "out_degree", "fractal_dimension", "position")
"""The six blocks of the paper's section 2.3."""


@dataclass(frozen=True)
class HSDAGOptions:
    """Options of ``HSDAGPolicy``, given as ``policy_kwargs``; saved models name them.

    Attributes:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES`` for the encoder.
        hidden: Width of an embedding.
        layers: Number of graph convolutions; 0 ignores the edges.
        conv: A name, or a class such as ``SAGEConv``; see ``agents.common.encoder.Encoder``.
        directed: Whether messages from producers and from consumers have separate weights.
        dropout: Dropout while groups are parsed in rollouts; likelihoods are computed without it.
        depth: Levels of parsing; 0 makes every unit a separate group.
        gate: Whether a group's embedding is gated by the mean score of its inner edges.
        groups: Approximate number of groups in the first placements. In rollouts a dominant edge is
            then kept with a probability that its score raises, see ``SampledGroups``; 0 keeps all
            of them, as published.
        refine: Placements in which the number of groups doubles; 0 leaves it to the scores.
        cost_weight: Initial weight of the logarithm of a group's time on a device in the logits; 0
            leaves the term out.
    """

    features: tuple[str, ...] = PAPER_FEATURES
    hidden: int = 128
    layers: int = 2
    conv: Conv = "gcn"
    directed: bool = False
    dropout: float = 0.2
    depth: int = 1
    gate: bool = True
    groups: float = 0.0
    refine: float = 0.0
    cost_weight: float = 0.0


class Groups(NamedTuple):
    """R partitions of N padded units into groups; units are numbered over all partitions."""

    group: Tensor  # (R * N,) group of each unit; each padding is its own
    inner: Tensor  # (2, k) units at the ends of the edges within groups
    leader: Tensor  # (R, N) which of the N units each follows, the first of its group
    decides: Tensor  # (R, N) bool, the units that are leaders; False for padding
    allowed: Tensor | None  # (R, N, D) bool, what all followers of a unit allow; None allows all


class Networks(nn.Module):
    """Encoder, scorer of edges, placer, and a critic for algorithms that need one."""

    def __init__(self, options: HSDAGOptions, n_devices: int, critic: bool) -> None:
        super().__init__()
        hidden, layers = options.hidden, options.layers
        self.encoder = Encoder(
            options.features, hidden, layers, options.conv, options.directed, options.dropout
        )
        self.scorer = make_perceptron(hidden, hidden, 1) if options.depth else None
        self.gated = options.gate
        self.placer = make_perceptron(hidden, hidden, n_devices)
        self.critic = make_perceptron(hidden, hidden, 1) if critic else None
        self.costs = slice(COST.start, COST.start + n_devices)
        weight = nn.Parameter(torch.tensor(float(options.cost_weight)))
        self.cost_weight = weight if options.cost_weight else None

    def shift_embeddings(self, z: Tensor, shift: Tensor) -> Tensor:
        """(..., hidden) Z + Z', normalised.

        Deviation: the paper's sum is not, so it doubles at each step and overflows.
        """
        return functional.layer_norm(z + shift, z.shape[-1:])

    def score_edges(self, z: Tensor, edges: Tensor) -> Tensor:
        """(e,) logits of the scores S_uv = sigmoid(phi(z_u * z_v)) of edges (2, e)."""
        assert self.scorer is not None
        scores: Tensor = self.scorer(z.index_select(0, edges[0]) * z.index_select(0, edges[1]))
        return scores[:, 0]

    def pool_groups(self, z: Tensor, group: Tensor, inner: Tensor) -> Tensor:
        """(n_groups, hidden) embedding of each group, gated by the mean score of its inner edges.

        Deviation: the mean of a group's embeddings, not their sum, by which large groups would
        outgrow small ones from step to step.
        """
        n_groups = int(group.max()) + 1
        pooled = scatter(z, group, dim_size=n_groups, reduce="mean")
        if not self.gated or not inner.shape[1]:
            return pooled
        owner = group[inner[0]]
        total = scatter(self.score_edges(z, inner).sigmoid(), owner, dim_size=n_groups)
        count = torch.bincount(owner, minlength=n_groups)
        return pooled * torch.where(count > 0, total / count.clamp(min=1), 1.0)[:, None]

    def forward(self, z: Tensor, costs: Tensor, groups: Groups) -> Tensor:
        """(R, N, D) logits of the units that decide, each for its group.

        From (R, N, hidden) embeddings and (R, N, D) times of padded units.
        """
        deciding = groups.group[groups.decides.flatten()]
        pooled = self.pool_groups(z.flatten(0, 1), groups.group, groups.inner)
        logits: Tensor = self.placer(pooled.index_select(0, deciding))
        if self.cost_weight is not None:  # of a group, the time of all its units
            times = scatter(costs.flatten(0, 1), groups.group, reduce="sum")[deciding]
            logits = logits - self.cost_weight * (times + MIN_COST).log()
        of_units = logits.new_zeros(costs.shape)
        of_units[groups.decides] = logits
        return of_units
