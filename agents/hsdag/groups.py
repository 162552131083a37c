"""Groups of units that are placed together (HSDAG, 2.4, 2.5; Graph Parsing Networks).

Functions parse a graph; ``RolloutGroups`` keeps groups and states Z <- Z + Z' of a rollout. Each
step of an episode is parsed once, so likelihoods in updates change with the weights alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from agents.common import GraphBatch, LRUCache, first_keep, intersect_followers
from agents.hsdag.networks import Groups, HSDAGOptions, Networks
from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.graph import label_components

Key = tuple[int, int]
"""``graph_id`` and step of the episode."""


class Partition(NamedTuple):
    """Groups of nodes."""

    group: IntArray  # (n,) group of each node, numbered in the order of their first nodes
    forest: IntArray  # (k,) indices of the edges that connect the groups


def parse(
    n: int, edges: IntArray, scores: FloatArray, depth: int = 1, allowed: BoolArray | None = None
) -> Partition:
    """Merge n nodes along the edges of highest score.

    At each level every group keeps its dominant edge, the highest-scoring one to another group,
    and groups connected by kept edges become one. These are the rounds of Boruvka's algorithm for
    the maximum spanning forest; the first round is the paper's parsing.

    Args:
        n: Number of nodes.
        edges: (2, e) edges, whose direction is ignored.
        scores: (e,) scores; the earlier edge wins ties.
        depth: Number of levels; 0 makes every node a separate group.
        allowed: (n, D) bool; the nodes of a group must have an allowed device in common.
    """
    ranked = np.argsort(-scores, kind="stable")
    forest = np.empty(0, dtype=np.int64)
    group = np.arange(n)
    for _ in range(depth):
        new = find_dominant_edges(group, edges, ranked)
        if not len(new):
            break
        forest = np.concatenate([forest, new])
        group = label_components(edges[:, forest], n)
    partition = Partition(group, forest)
    return partition if allowed is None else split_incompatible(partition, edges, scores, allowed)


def find_dominant_edges(group: IntArray, edges: IntArray, ranked: IntArray) -> IntArray:
    """Find the first of the ranked edges from each group to another one, highest first."""
    ends = group[edges[:, ranked]]
    between = ends[0] != ends[1]
    candidates, ends = ranked[between], ends[:, between]
    # the two ends of an edge are next to each other; two groups may share their first edge
    _, first = np.unique(ends.T.ravel(), return_index=True)
    return candidates[np.unique(first // 2)]


def split_incompatible(
    partition: Partition, edges: IntArray, scores: FloatArray, allowed: BoolArray
) -> Partition:
    """Remove the lowest edges of groups until some device supports each whole group.

    Deviation: the paper's two devices run everything.
    """
    group, forest = partition
    while True:
        # (n_groups, D) bool, the devices that all nodes of each group allow
        shared = np.ones((int(group.max()) + 1, allowed.shape[1]), dtype=np.bool_)
        np.logical_and.at(shared, group, allowed)
        owner = group[edges[0, forest]]
        runnable: BoolArray = np.any(shared, axis=1)
        bad = ~runnable[owner]
        if not bad.any():
            return Partition(group, forest)
        # remove the lowest edge of each group without a device
        by_group = np.lexsort((scores[forest], owner))
        by_group = by_group[bad[by_group]]
        _, lowest = np.unique(owner[by_group], return_index=True)
        forest = np.delete(forest, by_group[lowest])
        group = label_components(edges[:, forest], len(group))


class GraphStep(NamedTuple):
    """One graph at one step of an episode."""

    edges: Tensor  # (2, e) edges of the graph
    tree: Tensor  # (2, k) dominant edges: a forest, whose components are groups
    group: Tensor  # (n,) group of each node if all dominant edges are kept
    shift: Tensor  # (n, hidden) sum of what earlier steps added to the embeddings


class States(NamedTuple):
    """S graphs with N padded units each, at steps of an episode."""

    steps: list[GraphStep]
    graph: Tensor  # (S,) index of each state's graph in the batch
    mask: Tensor  # (S, N) bool, False for padding
    shift: Tensor  # (S, N, hidden) sum of what earlier steps added to each unit's embedding
    costs: Tensor  # (S, N, D) times of each unit
    prior: Tensor  # (S,) logits of keeping an edge, to which its score is added


class RolloutGroups:
    """Groups of a rollout, and the embeddings that they are parsed from.

    Args:
        networks: Those of the policy.
        options: Those of the policy.
        sampling: Whether placements are sampled. If all dominant edges are kept, dropout then
            varies the groups.
        drawn: Number of placements in earlier rollouts.
    """

    def __init__(
        self, networks: Networks, options: HSDAGOptions, sampling: bool, drawn: float
    ) -> None:
        self.networks, self.options = networks, options
        self.sampling, self.drawn = sampling, drawn
        self.version = self.find_version()
        self.steps: dict[Key, GraphStep] = {}
        self.states: LRUCache[tuple[Key, ...], States] = LRUCache()
        self.embeddings: LRUCache[tuple[tuple[int, ...], bool], Tensor] = LRUCache()

    @property
    def stale(self) -> bool:
        """True if the weights have changed since the rollout began."""
        return self.version != self.find_version()

    def find_version(self) -> int:
        """A hash that changes when weights are changed in place or replaced."""
        return hash(tuple((p._version, p.data_ptr()) for p in self.networks.parameters()))

    def find_states(self, graphs: GraphBatch, keys: tuple[Key, ...]) -> States:
        if keys in self.states:
            return self.states[keys]
        steps = [self.find_step(graphs, *key) for key in keys]
        rows = graphs.ptr.new_tensor([graphs.ids.index(graph_id) for graph_id, _ in keys])
        mask = graphs.node_mask[rows]
        shifts = [pad(step.shift, (0, 0, 0, mask.shape[1] - len(step.shift))) for step in steps]
        n_groups = self.options.groups
        if self.options.refine:
            n_groups *= 2.0 ** (self.drawn / self.options.refine)
        self.states[keys] = States(
            steps=steps,
            graph=rows,
            mask=mask,
            shift=torch.stack(shifts),
            costs=graphs.pad(graphs.x[:, self.networks.costs])[rows],
            prior=first_keep(mask.sum(dim=1), max(n_groups, 1.0)),
        )
        return self.states[keys]

    def encode(self, graphs: GraphBatch, states: States) -> Tensor:
        """(S * N, hidden) embeddings of the states' units by the current weights."""
        z = self.networks.encoder(graphs) if self.stale else self.embed(graphs)
        padded = graphs.pad(z).index_select(0, states.graph)
        return self.networks.shift_embeddings(padded, states.shift).flatten(0, 1)

    @torch.no_grad()
    def find_step(self, graphs: GraphBatch, graph_id: int, step: int) -> GraphStep:
        """Find a graph at a step of the episode; parse it up to there if it is new."""
        for at in range(step + 1):
            if (graph_id, at) not in self.steps:
                earlier = self.steps.get((graph_id, at - 1))
                self.steps[graph_id, at] = self.make_step(graphs, graph_id, earlier)
        return self.steps[graph_id, step]

    def make_step(self, graphs: GraphBatch, graph_id: int, earlier: GraphStep | None) -> GraphStep:
        """Z <- Z + Z' after an earlier step, then score the edges and parse the groups.

        Deviations: the convolutions do not run again on Z + Z'; dropout acts here and not in the
        likelihood.
        """
        row = graphs.ids.index(graph_id)
        nodes, edges = graphs.nodes_of(row), graphs.edges_of(row)
        z = self.embed(graphs)[nodes]
        shift = torch.zeros_like(z) if earlier is None else self.compute_shift(z, earlier)
        if self.sampling and self.options.dropout and not self.options.groups:
            z = self.embed(graphs, noisy=True)[nodes]
        state = self.networks.shift_embeddings(z, shift)
        depth, scores = self.options.depth, np.zeros(edges.shape[1])
        if depth:
            scores = self.networks.score_edges(state, edges).cpu().numpy()
        allowed = None if graphs.action_mask is None else graphs.action_mask[nodes].cpu().numpy()
        parts = parse(len(state), edges.cpu().numpy(), scores, depth, allowed)
        group, tree = (torch.as_tensor(part, device=z.device) for part in parts)
        return GraphStep(edges, edges[:, tree], group, shift)

    def compute_shift(self, z: Tensor, earlier: GraphStep) -> Tensor:
        """(n, hidden) sum of what steps up to an earlier one have added to embeddings z."""
        state = self.networks.shift_embeddings(z, earlier.shift)
        group, edges = earlier.group, earlier.edges
        inner = edges[:, group[edges[0]] == group[edges[1]]]
        return state + self.networks.pool_groups(state, group, inner)[group] - z

    def embed(self, graphs: GraphBatch, noisy: bool = False) -> Tensor:
        """(n, hidden) embeddings Z of the rollout; dropout is sampled once."""
        key = graphs.ids, noisy
        if key not in self.embeddings:
            with torch.set_grad_enabled(self.sampling and not noisy):
                self.embeddings[key] = self.networks.encoder(graphs, noisy)
        z = self.embeddings[key]
        if not torch.is_grad_enabled():
            return z.detach()
        # the first update continues from the rollout's forward pass; its backward pass frees the
        # activations, so later updates run the encoder again
        self.embeddings[key] = z.detach()
        return z if z.requires_grad else self.networks.encoder(graphs)


def group_nodes(
    graphs: GraphBatch, states: States, which: Sequence[int], trees: Sequence[Tensor]
) -> Groups:
    """Group the units of states by the (2, k) kept edges of each; a state may occur repeatedly."""
    chosen = list(which)
    mask, n_slots = states.mask[chosen], states.mask.shape[1]
    # groups are the components of the kept edges; inner edges are all edges within a group
    forest = number_over_all(trees, n_slots)
    labels = label_components(forest.cpu().numpy(), mask.numel())
    group = torch.as_tensor(labels, device=mask.device)
    edges = number_over_all([states.steps[state].edges for state in chosen], n_slots)
    # the first unit of a group, its leader, decides for all
    units = torch.arange(len(group), device=group.device)
    first = units.new_full((int(group.max()) + 1,), len(group))
    first.scatter_reduce_(0, group, units, "amin")
    leader, allowed = (first[group] % n_slots).view_as(mask), graphs.allowed_slots
    if allowed is not None:
        allowed = intersect_followers(allowed[states.graph[chosen]], leader, n_slots)
    return Groups(
        group=group,
        inner=edges[:, group[edges[0]] == group[edges[1]]],
        leader=leader,
        decides=(first[group] == units).view_as(mask) & mask,
        allowed=allowed,
    )


def number_over_all(edges: Sequence[Tensor], n_slots: int) -> Tensor:
    """(2, e) edges between the padded units of all graphs, from (2, k) edges in each."""
    return torch.cat([ends + row * n_slots for row, ends in enumerate(edges)], dim=1)
