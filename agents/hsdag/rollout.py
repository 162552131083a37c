"""The state that stays fixed during a rollout: groups, and shifts of embeddings within an episode.

The likelihood of an action may change with the weights only, so groups are made once for each graph
and step of an episode and reused by ``evaluate_actions``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from agents.common.distribution import intersect_followers
from agents.common.graphs import GraphBatch, Recent
from agents.hsdag.edges import Choices
from agents.hsdag.grouping import Graph, choose_groups, parse_partition, sample_partition
from agents.hsdag.networks import Groups, Networks, StateChoices, States
from agents.hsdag.options import Options
from agents.hsdag.parsing import Partition

Key = tuple[int, int, int]
"""``graph_id``, step of the episode, and which of several groupings."""


class GraphStep(NamedTuple):
    """One graph at one step of an episode.

    Attributes:
        group: (n,) group of each node.
        inner: (2, k) nodes of the edges that connect the groups.
        shift: (n, hidden) sum of what earlier steps added to the embeddings.
        choices: Edges that were kept or cut, if groups come about by that.
    """

    group: Tensor
    inner: Tensor
    shift: Tensor
    choices: Choices | None = None


class Outputs(NamedTuple):
    """The networks' outputs for S states.

    Attributes:
        logits: (S, N, D) logits of the devices.
        values: (S, 1) expected returns.
        states: The states.
        groups: Log-probability and entropy of their groups; see ``UnitCategorical``.
    """

    logits: Tensor
    values: Tensor
    states: States
    groups: Groups


class Rollout:
    """Groups and embeddings of a rollout, computed on first use.

    Args:
        networks: Networks that compute embeddings and scores.
        options: How groups are made.
        sampling: Whether placements are sampled; groups may then be sampled, too.
    """

    def __init__(self, networks: Networks, options: Options, sampling: bool) -> None:
        self.networks, self.options, self.sampling = networks, options, sampling
        self.weights = list(networks.parameters())
        self.version = compute_version(self.weights)
        self.graph_steps: dict[tuple[int, int], list[GraphStep]] = {}
        self.embeddings: Recent[tuple[tuple[int, ...], bool], Tensor] = Recent()
        self.embeddings_with_grad: Recent[tuple[int, ...], Tensor] = Recent()
        self.states: Recent[tuple[Key, ...], States] = Recent()
        self.outputs: Recent[tuple[Key, ...], Outputs] = Recent()

    @property
    def stale(self) -> bool:
        """Whether the weights have changed since the rollout began."""
        return self.version != compute_version(self.weights)

    def evaluate(self, graphs: GraphBatch, keys: tuple[Key, ...]) -> Outputs:
        """Evaluate the networks on S states of these graphs."""
        if not torch.is_grad_enabled() and not self.stale and keys in self.outputs:
            return self.outputs[keys]
        if keys not in self.states:
            steps = [self.graph_step(graphs, *key) for key in keys]
            self.states[keys] = stack_states(graphs, keys, steps)
        states = self.states[keys]
        logits, values, groups = self.networks(self.embeddings_of(graphs), graphs, states)
        outputs = Outputs(logits, values, states, groups)
        if not torch.is_grad_enabled():
            self.outputs[keys] = outputs
        return outputs

    @torch.no_grad()
    def graph_step(self, graphs: GraphBatch, graph_id: int, step: int, variant: int) -> GraphStep:
        """The groups of a graph at a step of the episode, one of several variants of them."""
        known = self.graph_steps.setdefault((graph_id, variant), [])
        while len(known) <= step:
            known.append(self.next_step(graphs, graph_id, known[-1] if known else None))
        return known[step]

    def next_step(self, graphs: GraphBatch, graph_id: int, earlier: GraphStep | None) -> GraphStep:
        """Compute the step after an earlier one: Z <- Z + Z' (HSDAG, 2.5), then new groups."""
        graph = Graph.of(graphs, graphs.ids.index(graph_id))
        z = self.embed(graphs)[graph.nodes]
        shift = torch.zeros_like(z) if earlier is None else self.compute_shift(z, earlier)
        if self.sampling and self.options.dropout:
            z = self.embed(graphs, noisy=True)[graph.nodes]
        state = self.networks.shift_embeddings(z, shift)
        if self.options.choose_edges:
            chosen, inner, choices = choose_groups(
                self.networks, self.options, graph, state, self.sampling
            )
            return GraphStep(torch.as_tensor(chosen, device=z.device), inner, shift, choices)
        make = sample_partition if self.sampling and self.options.draw_groups else parse_partition
        partition: Partition = make(self.networks, self.options, graph, state)
        kept = torch.as_tensor(partition.kept, device=z.device)
        group = torch.as_tensor(partition.group, device=z.device)
        return GraphStep(group, graph.edges[:, kept], shift)

    def embeddings_of(self, graphs: GraphBatch) -> Tensor:
        """(n, hidden) embeddings for decisions; the rollout's own while the weights are unchanged.

        The first update backpropagates through the rollout's own forward pass.
        """
        if self.stale:
            return self.networks.encoder(graphs)
        if not torch.is_grad_enabled():
            return self.embed(graphs)
        z = self.embeddings_with_grad.pop(graphs.ids, None)
        return self.networks.encoder(graphs) if z is None else z

    def embed(self, graphs: GraphBatch, noisy: bool = False) -> Tensor:
        """(n, hidden) embeddings; the dropout mask is sampled once per rollout."""
        key = graphs.ids, noisy
        if key not in self.embeddings:
            with torch.set_grad_enabled(self.sampling and not noisy):
                z = self.networks.encoder(graphs, noisy=noisy)
            self.embeddings[key] = z.detach()
            if z.requires_grad:
                self.embeddings_with_grad[graphs.ids] = z
        return self.embeddings[key]

    def compute_shift(self, z: Tensor, earlier: GraphStep) -> Tensor:
        """(n, hidden) sum of what has been added to embeddings z after an earlier step."""
        group, inner, shift, _ = earlier
        state = self.networks.shift_embeddings(z, shift)
        return state + self.networks.pool_groups(state, group, inner)[group] - z


def stack_states(graphs: GraphBatch, keys: tuple[Key, ...], steps: list[GraphStep]) -> States:
    """Stack the steps of S keys into one batch."""
    rows = [graphs.ids.index(graph_id) for graph_id, *_ in keys]
    sizes = np.array([len(step.group) for step in steps])
    begins = np.cumsum(sizes) - sizes
    n_groups = np.array([int(step.group.max()) + 1 for step in steps])
    first_groups = np.cumsum(n_groups) - n_groups
    node_mask: Tensor = graphs.node_mask[rows]
    state, slot = node_mask.nonzero(as_tuple=True)
    group = torch.cat([s.group + first for s, first in zip(steps, first_groups, strict=True)])
    leader = torch.arange(node_mask.shape[1], device=slot.device).repeat(len(keys), 1)
    slots = leader.clone()
    leader[state, slot] = slot[find_first_members(group)]
    ptr = graphs.ptr.tolist()
    ranges = [torch.arange(ptr[row], ptr[row + 1], device=slot.device) for row in rows]
    return States(
        node=torch.cat(ranges),
        state=state,
        shift=torch.cat([step.shift for step in steps]),
        group=group,
        inner=torch.cat([s.inner + b for s, b in zip(steps, begins, strict=True)], dim=1),
        slot=slot,
        leader=leader,
        decides=(leader == slots) & node_mask,
        allowed=allowed_for_leaders(graphs, rows, leader),
        choices=stack_choices(steps, begins.tolist(), torch.cat(ranges)),
    )


def stack_choices(steps: list[GraphStep], begins: list[int], node: Tensor) -> StateChoices | None:
    """The edges that were kept or cut in all states, whose nodes begin at ``begins``.

    Args:
        steps: Of each state.
        begins: Index of each state's first node.
        node: (m,) index of each state node in the graphs' batch.
    """
    known = [step.choices for step in steps if step.choices is not None]
    if not known:
        return None
    sizes = torch.tensor([len(one.kept) for one in known])
    ends = torch.cat([one.ends + begin for one, begin in zip(known, begins, strict=True)], dim=1)
    shifted = any(bool(step.shift.any()) for step in steps)
    _, same = torch.unique(node, return_inverse=True)
    first = torch.arange(len(node)) if shifted else find_first_members(same)
    pairs, pair = torch.unique(first[ends], dim=1, return_inverse=True)
    return StateChoices(
        ends=ends,
        kept=torch.cat([one.kept for one in known]),
        offset=torch.tensor([one.offset for one in known]).repeat_interleave(sizes),
        state=torch.arange(len(known)).repeat_interleave(sizes),
        pairs=pairs,
        pair=pair,
    )


def find_first_members(group: Tensor) -> Tensor:
    """(m,) index of the first node of each node's group."""
    nodes = torch.arange(len(group), device=group.device)
    first = nodes.new_full((int(group.max()) + 1,), len(group))
    return first.scatter_reduce_(0, group, nodes, "amin")[group]


def allowed_for_leaders(graphs: GraphBatch, rows: list[int], leader: Tensor) -> Tensor | None:
    """(S, N, D) bool, devices that all followers of each unit allow; None if all are allowed."""
    allowed = graphs.allowed_slots
    return None if allowed is None else intersect_followers(allowed[rows], leader)


def compute_version(weights: list[nn.Parameter]) -> int:
    """A hash that changes when weights are changed in place or replaced."""
    return hash(tuple((p._version, p.data_ptr()) for p in weights))
