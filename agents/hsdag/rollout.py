"""The fixed parts of a rollout: the groups of each step, and the state Z <- Z + Z' (2.4, 2.5).

The likelihood of an action may change with the weights only, so groups are parsed once for each
graph and step of an episode and reused by ``evaluate_actions``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from agents.common.distribution import intersect_followers
from agents.common.graphs import GraphBatch, Recent
from agents.hsdag.networks import HSDAGOptions, Networks, States
from agents.hsdag.parsing import Partition, parse
from placement_gym.base.arrays import BoolArray

Key = tuple[int, int]
"""``graph_id`` and step of the episode."""


class GraphStep(NamedTuple):
    """One graph at one step of an episode.

    Attributes:
        group: (n,) group of each node.
        kept: (2, k) nodes of the edges that connect the groups.
        shift: (n, hidden) sum of what earlier steps added to the embeddings.
    """

    group: Tensor
    kept: Tensor
    shift: Tensor


class Outputs(NamedTuple):
    """The networks' outputs for S states.

    Attributes:
        logits: (S, N, D) logits of the devices.
        values: (S, 1) expected returns.
        states: The states.
    """

    logits: Tensor
    values: Tensor
    states: States


class Rollout:
    """Groups and embeddings of a rollout, computed on first use.

    Args:
        networks: Networks that compute embeddings and scores.
        options: How groups are parsed.
        sampling: Whether placements are sampled; groups are then parsed with dropout.
    """

    def __init__(self, networks: Networks, options: HSDAGOptions, sampling: bool) -> None:
        self.networks, self.options, self.sampling = networks, options, sampling
        self.weights = list(networks.parameters())
        self.version = compute_version(self.weights)
        self.graph_steps: dict[int, list[GraphStep]] = {}
        self.embeddings: Recent[tuple[tuple[int, ...], bool], Tensor] = Recent()
        self.embeddings_with_grad: Recent[tuple[int, ...], Tensor] = Recent()
        self.states: Recent[tuple[Key, ...], States] = Recent()
        self.outputs: Recent[tuple[Key, ...], Outputs] = Recent()

    @property
    def stale(self) -> bool:
        """True if the weights have changed since the rollout began."""
        return self.version != compute_version(self.weights)

    def evaluate(self, graphs: GraphBatch, keys: tuple[Key, ...]) -> Outputs:
        """Evaluate the networks on S states of these graphs."""
        if not torch.is_grad_enabled() and not self.stale and keys in self.outputs:
            return self.outputs[keys]
        if keys not in self.states:
            steps = [self.graph_step(graphs, *key) for key in keys]
            self.states[keys] = stack_states(graphs, keys, steps)
        states = self.states[keys]
        logits, values = self.networks(self.embeddings_of(graphs), graphs, states)
        outputs = Outputs(logits, values, states)
        if not torch.is_grad_enabled():
            self.outputs[keys] = outputs
        return outputs

    @torch.no_grad()
    def graph_step(self, graphs: GraphBatch, graph_id: int, step: int) -> GraphStep:
        """The groups of a graph at a step of the episode."""
        known = self.graph_steps.setdefault(graph_id, [])
        while len(known) <= step:
            known.append(self.next_step(graphs, graph_id, known[-1] if known else None))
        return known[step]

    def next_step(self, graphs: GraphBatch, graph_id: int, earlier: GraphStep | None) -> GraphStep:
        """Z <- Z + Z' after an earlier step, then score the edges and parse the groups.

        Deviations: the convolutions do not run again on Z + Z'; dropout acts here, where groups
        are parsed, and not in the likelihood.
        """
        row = graphs.ids.index(graph_id)
        nodes, edges = graphs.nodes_of(row), graphs.edges_of(row)
        z = self.embed(graphs)[nodes]
        shift = torch.zeros_like(z) if earlier is None else self.compute_shift(z, earlier)
        if self.sampling and self.options.dropout:
            z = self.embed(graphs, noisy=True)[nodes]
        state = self.networks.shift_embeddings(z, shift)
        mask = graphs.action_mask
        group, kept = self.parse_groups(
            state, edges, None if mask is None else mask[nodes].cpu().numpy()
        )
        chosen = torch.as_tensor(kept, device=z.device)
        return GraphStep(torch.as_tensor(group, device=z.device), edges[:, chosen], shift)

    def parse_groups(self, state: Tensor, edges: Tensor, allowed: BoolArray | None) -> Partition:
        """Groups of one graph.

        With ``cut``, edges whose score is at most a half are no candidates, so that units may stay
        alone and scores say how many groups there are.

        Args:
            state: (n, hidden) embeddings.
            edges: (2, e).
            allowed: (n, D) bool, devices of each node; None allows all.
        """
        depth, n = self.options.depth, len(state)
        if not depth:
            return Partition(np.arange(n), np.empty(0, dtype=np.int64))
        scores = self.networks.score_edges(state, edges).cpu().numpy()
        tried = np.flatnonzero(scores > 0.0) if self.options.cut else np.arange(len(scores))
        group, kept = parse(n, edges.cpu().numpy()[:, tried], scores[tried], depth, allowed)
        return Partition(group, tried[kept])

    def compute_shift(self, z: Tensor, earlier: GraphStep) -> Tensor:
        """(n, hidden) sum of what has been added to embeddings z after an earlier step."""
        state = self.networks.shift_embeddings(z, earlier.shift)
        pooled = self.networks.pool_groups(state, earlier.group, earlier.kept)
        return state + pooled[earlier.group] - z

    def embeddings_of(self, graphs: GraphBatch) -> Tensor:
        """(n, hidden) embeddings for decisions; the rollout's own while the weights are unchanged.

        The first update backpropagates through the rollout's own forward pass.
        """
        if self.stale:
            return self.networks.encode(graphs)
        if not torch.is_grad_enabled():
            return self.embed(graphs)
        z = self.embeddings_with_grad.pop(graphs.ids, None)
        return self.networks.encode(graphs) if z is None else z

    def embed(self, graphs: GraphBatch, noisy: bool = False) -> Tensor:
        """(n, hidden) embeddings; the dropout mask is sampled once per rollout."""
        key = graphs.ids, noisy
        if key not in self.embeddings:
            with torch.set_grad_enabled(self.sampling and not noisy):
                z = self.networks.encode(graphs, noisy)
            self.embeddings[key] = z.detach()
            if z.requires_grad:
                self.embeddings_with_grad[graphs.ids] = z
        return self.embeddings[key]


def stack_states(graphs: GraphBatch, keys: tuple[Key, ...], steps: list[GraphStep]) -> States:
    """Stack the steps of S keys into one batch."""
    rows = [graphs.ids.index(graph_id) for graph_id, _ in keys]
    sizes = np.array([len(step.group) for step in steps])
    begins = np.cumsum(sizes) - sizes
    n_groups = np.array([int(step.group.max()) + 1 for step in steps])
    first_groups = np.cumsum(n_groups) - n_groups
    node_mask: Tensor = graphs.node_mask[rows]
    state, slot = node_mask.nonzero(as_tuple=True)
    group = torch.cat([s.group + first for s, first in zip(steps, first_groups, strict=True)])
    # a group is decided by its first unit, its leader; the others follow
    leader = torch.arange(node_mask.shape[1], device=slot.device).repeat(len(keys), 1)
    slots = leader.clone()
    leader[state, slot] = slot[find_first_members(group)]
    allowed = graphs.allowed_slots
    ptr = graphs.ptr.tolist()
    ranges = [torch.arange(ptr[row], ptr[row + 1], device=slot.device) for row in rows]
    return States(
        node=torch.cat(ranges),
        state=state,
        shift=torch.cat([step.shift for step in steps]),
        group=group,
        kept=torch.cat([s.kept + b for s, b in zip(steps, begins, strict=True)], dim=1),
        slot=slot,
        leader=leader,
        decides=(leader == slots) & node_mask,
        allowed=None if allowed is None else intersect_followers(allowed[rows], leader),
    )


def find_first_members(group: Tensor) -> Tensor:
    """(m,) index of the first node of each node's group."""
    nodes = torch.arange(len(group), device=group.device)
    first = nodes.new_full((int(group.max()) + 1,), len(group))
    return first.scatter_reduce_(0, group, nodes, "amin")[group]


def compute_version(weights: list[nn.Parameter]) -> int:
    """A hash that changes when weights are changed in place or replaced."""
    return hash(tuple((p._version, p.data_ptr()) for p in weights))
