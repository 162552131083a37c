"""HSDAG's networks: encoder, edge scorer, pooling and placer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.common.encoder import Encoder
from agents.common.graph_policy import make_perceptron
from agents.common.graphs import MIN_COST, GraphBatch
from agents.common.pairs import PairScorer, describe_pairs
from agents.common.pyg import scatter
from agents.hsdag.edges import FIRST_SCORE
from agents.hsdag.options import Options
from placement_gym.observation import FEATURES

Groups = tuple[Tensor, Tensor] | None
"""See ``UnitCategorical``."""


@dataclass(frozen=True, eq=False)
class States:
    """A batch of S states: graphs with their groups; a graph may occur in several states.

    Attributes:
        node: (m,) index of each state node in the graphs' batch.
        state: (m,) state of each node.
        shift: (m, hidden) sum of what earlier steps of the episode added to its embedding.
        group: (m,) group of each node, numbered over all states.
        inner: (2, k) nodes of the edges that connect the groups.
        slot: (m,) index of each node among the padded units.
        leader: (S, N) the padded unit that each padded unit follows.
        decides: (S, N) bool, whether a unit is a leader; False for padding.
        allowed: (S, N, D) bool, devices that all followers of a unit allow; None allows all.
        choices: Edges that were kept or cut; None if groups came about in another way.
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
    choices: StateChoices | None = None


class StateChoices(NamedTuple):
    """Edges that were kept or cut, over all states.

    Attributes:
        ends: (2, k) their nodes, numbered over all states.
        kept: (k,) bool.
        offset: (k,) added to their scores.
        state: (k,) state of each.
        pairs: (2, u) distinct nodes among ``ends``: equal states of a graph share their scores.
        pair: (k,) index of each among ``pairs``.
    """

    ends: Tensor
    kept: Tensor
    offset: Tensor
    state: Tensor
    pairs: Tensor
    pair: Tensor


class Networks(nn.Module):
    """The networks of HSDAG's steps 2 to 4: features, embeddings and groups, placement.

    Args:
        options: Sizes and switches.
        n_devices: Number of devices.
        critic: Whether to build a critic.
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
            options.joint_costs,
            n_devices if options.devices else 0,
        )
        self.scorer = make_perceptron(hidden, hidden, 1) if options.grouping else None
        if options.choose_edges and self.scorer is not None:
            last = self.scorer[-1]
            assert isinstance(last, nn.Linear)
            nn.init.constant_(last.bias, FIRST_SCORE)
        self.gated = options.gate
        self.pairs = PairScorer(options.cost_weight) if options.devices else None
        self.placer = make_perceptron(hidden, hidden, n_devices, gain=0.0)
        self.critic = make_perceptron(hidden, hidden, 1) if critic else None
        first = FEATURES["cost"].start
        self.costs = slice(first, first + n_devices)
        weight = torch.tensor(options.cost_weight)
        sums_costs = bool(options.cost_weight) and not options.devices
        self.cost_weight = nn.Parameter(weight) if sums_costs else None

    def shift_embeddings(self, z: Tensor, shift: Tensor) -> Tensor:
        """(n, hidden) normalised sum of embeddings and what earlier steps of the episode added."""
        return functional.layer_norm(z + shift, z.shape[1:])

    def score_edges(self, z: Tensor, edges: Tensor) -> Tensor:
        """(e,) logits phi(z_u * z_v) of edges (2, e) between nodes with embeddings z."""
        assert self.scorer is not None
        scores: Tensor = self.scorer(z.index_select(0, edges[0]) * z.index_select(0, edges[1]))
        return scores[:, 0]

    def score_choices(self, z: Tensor, choices: StateChoices | None) -> Tensor:
        """(k,) logits of edges that were kept or cut, of none if groups came about otherwise."""
        if choices is None:
            return z.new_zeros(0)
        return self.score_edges(z, choices.pairs)[choices.pair]

    def pool_groups(
        self, z: Tensor, group: Tensor, inner: Tensor, scores: Tensor | None = None
    ) -> Tensor:
        """(n_groups, hidden) mean embedding of each group, gated by the mean score of its edges.

        Args:
            z: (n, hidden) embeddings.
            group: (n,) group of each node.
            inner: (2, k) nodes of the edges that connect the groups.
            scores: (k,) their logits; None computes them.
        """
        n_groups = int(group.max()) + 1
        pooled = scatter(z, group, dim_size=n_groups, reduce="mean")
        if not inner.shape[1] or not self.gated:
            return pooled
        owner = group[inner[0]]
        scores = self.score_edges(z, inner) if scores is None else scores
        total = scatter(scores.sigmoid(), owner, dim_size=n_groups)
        count = torch.bincount(owner, minlength=n_groups)
        gate = torch.where(count > 0, total / count.clamp(min=1), 1.0)
        return pooled * gate[:, None]

    def forward(
        self, z: Tensor, graphs: GraphBatch, states: States
    ) -> tuple[Tensor, Tensor, Groups]:
        """(S, N, D) logits of padded units, (S, 1) values, and the groups' likelihood.

        Args:
            z: (n, hidden) embeddings of the graphs' nodes.
            graphs: The graphs.
            states: The states to decide on.
        """
        z = self.shift_embeddings(z.index_select(0, states.node), states.shift)
        scores = self.score_choices(z, states.choices)
        kept = scores[states.choices.kept] if states.choices is not None else None
        of_groups = self.placer(self.pool_groups(z, states.group, states.inner, kept))
        if self.cost_weight is not None:
            cost = scatter(graphs.x[states.node, self.costs], states.group, reduce="sum")
            of_groups = of_groups - self.cost_weight * (cost + MIN_COST).log()
        if self.pairs is not None:
            of_groups = of_groups + self.rate_pairs(self.pairs, graphs, states)
        n_states, n_slots = states.decides.shape
        logits = of_groups.new_zeros(n_states, n_slots, of_groups.shape[1])
        logits[states.state, states.slot] = of_groups.index_select(0, states.group)
        groups = rate_choices(scores, states)
        if self.critic is None:
            return logits, logits.new_zeros(n_states, 1), groups
        values: Tensor = self.critic(scatter(z, states.state, reduce="mean"))
        return logits, values, groups

    def rate_pairs(self, scorer: PairScorer, graphs: GraphBatch, states: States) -> Tensor:
        """(n_groups, D) preferences of groups for devices, by the means of their units."""
        pairs, ms = describe_pairs(graphs), graphs.device_tables.unit_ms
        of_groups = scatter(pairs[states.node].flatten(1), states.group, reduce="mean")
        times = scatter(ms[states.node], states.group, reduce="mean")
        rated: Tensor = scorer(of_groups.view(len(times), *pairs.shape[1:]), times)
        return rated


def rate_choices(scores: Tensor, states: States) -> Groups:
    """(S,) log-probability and (S,) entropy of the (k,) edges that were kept or cut."""
    if states.choices is None:
        return None
    kept, state = states.choices.kept, states.choices.state
    scores = scores + states.choices.offset
    chosen = functional.logsigmoid(torch.where(kept, scores, -scores))
    entropy = functional.binary_cross_entropy_with_logits(
        scores, scores.sigmoid(), reduction="none"
    )
    n = len(states.decides)
    return scatter(chosen, state, dim_size=n), scatter(entropy, state, dim_size=n)
