"""The groups of a rollout, and the state Z <- Z + Z' that they move in an episode (2.4, 2.5).

The likelihood of a placement may change with the weights only. So the groups of a graph at a step
of the episode are parsed once, by the weights that sample placements, and kept for the updates.
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
    """Groups of a rollout, and the embeddings that they are parsed from.

    Args:
        networks: Networks that compute embeddings and scores.
        options: How groups are parsed.
        sampling: Whether placements are sampled; groups are then parsed with dropout.
    """

    def __init__(self, networks: Networks, options: HSDAGOptions, sampling: bool) -> None:
        self.networks, self.options, self.sampling = networks, options, sampling
        self.weights = list(networks.parameters())
        self.version = compute_version(self.weights)
        self.steps: dict[Key, GraphStep] = {}
        self.embeddings: Recent[tuple[tuple[int, ...], bool], Tensor] = Recent()
        self.states: Recent[tuple[Key, ...], States] = Recent()
        self.outputs: Recent[tuple[Key, ...], Outputs] = Recent()

    @property
    def stale(self) -> bool:
        """True if the weights have changed since the rollout began."""
        return self.version != compute_version(self.weights)

    def evaluate(self, graphs: GraphBatch, keys: tuple[Key, ...]) -> Outputs:
        """Evaluate the networks on S states of these graphs."""
        # while placements are sampled, the outputs of a state stay the same
        repeats = not torch.is_grad_enabled() and not self.stale
        if repeats and keys in self.outputs:
            return self.outputs[keys]
        # what states consist of stays the same in the updates, too
        if keys not in self.states:
            steps = [self.find_step(graphs, *key) for key in keys]
            self.states[keys] = stack_states(graphs, keys, steps)
        states = self.states[keys]
        z = self.encode(graphs)
        logits, values = self.networks(z, graphs, states)
        outputs = Outputs(logits, values, states)
        if repeats:
            self.outputs[keys] = outputs
        return outputs

    def encode(self, graphs: GraphBatch) -> Tensor:
        """(n, hidden) embeddings by the current weights; computed once until these change."""
        return self.networks.encode(graphs) if self.stale else self.embed(graphs)

    @torch.no_grad()
    def find_step(self, graphs: GraphBatch, graph_id: int, step: int) -> GraphStep:
        """Find the groups of a graph at a step of the episode, or parse them."""
        for at in range(step + 1):
            if (graph_id, at) not in self.steps:
                earlier = self.steps.get((graph_id, at - 1))
                self.steps[graph_id, at] = self.make_step(graphs, graph_id, earlier)
        return self.steps[graph_id, step]

    def make_step(self, graphs: GraphBatch, graph_id: int, earlier: GraphStep | None) -> GraphStep:
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
        allowed = None if graphs.action_mask is None else graphs.action_mask[nodes].cpu().numpy()
        found = self.parse_groups(state, edges, allowed)
        group, kept = (torch.as_tensor(part, device=z.device) for part in found)
        return GraphStep(group, edges[:, kept], shift)

    def compute_shift(self, z: Tensor, earlier: GraphStep) -> Tensor:
        """(n, hidden) sum of what has been added to embeddings z after an earlier step."""
        state = self.networks.shift_embeddings(z, earlier.shift)
        pooled = self.networks.pool_groups(state, earlier.group, earlier.kept)
        return state + pooled[earlier.group] - z

    def parse_groups(self, state: Tensor, edges: Tensor, allowed: BoolArray | None) -> Partition:
        """Score the (2, e) edges of a graph by (n, hidden) embeddings, and parse its groups."""
        depth, scores = self.options.depth, np.zeros(edges.shape[1])
        if depth:
            scores = self.networks.score_edges(state, edges).cpu().numpy()
        return parse(len(state), edges.cpu().numpy(), scores, depth, allowed)

    def embed(self, graphs: GraphBatch, noisy: bool = False) -> Tensor:
        """(n, hidden) embeddings Z of the rollout; what dropout drops is sampled once.

        The first update goes on from the rollout's own forward pass. A backward pass frees the
        activations of that, so that it is returned with a gradient once.
        """
        key = graphs.ids, noisy
        if key not in self.embeddings:
            with torch.set_grad_enabled(self.sampling and not noisy):
                self.embeddings[key] = self.networks.encode(graphs, noisy)
        z = self.embeddings[key]
        if not torch.is_grad_enabled():
            return z.detach()
        self.embeddings[key] = z.detach()
        return z if z.requires_grad else self.networks.encode(graphs)


def stack_states(graphs: GraphBatch, keys: tuple[Key, ...], steps: list[GraphStep]) -> States:
    """Stack the steps of S keys into one batch."""
    rows = [graphs.ids.index(graph_id) for graph_id, _ in keys]
    # nodes and groups are numbered over all states
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
