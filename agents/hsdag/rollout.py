"""What stays fixed while a roll-out lasts: groups, and how embeddings move within an episode.

The likelihood of an action must not change but by the weights, so groups are made once for each
graph and step of an episode and reused in ``evaluate_actions``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from agents.common.distribution import together
from agents.common.graphs import GraphBatch, Recent
from agents.hsdag.grouping import Graph, drawn, parsed
from agents.hsdag.networks import Networks, States
from agents.hsdag.options import Options
from agents.hsdag.parsing import Partition

Key = tuple[int, int]
"""``graph_id`` and step of the episode."""


class Moment(NamedTuple):
    """One graph at one step of an episode.

    Attributes:
        group: (n,) group of each node.
        inner: (2, k) nodes of the edges that hold the groups together.
        shift: (n, hidden) what earlier steps have added to its embeddings.
    """

    group: Tensor
    inner: Tensor
    shift: Tensor


class Answer(NamedTuple):
    """What the networks say of states.

    Attributes:
        logits: (S, N, D).
        values: (S, 1).
        states: What they are about.
    """

    logits: Tensor
    values: Tensor
    states: States


class Rollout:
    """Groups and embeddings of a roll-out, made when they are first asked for.

    Args:
        networks: Whose scores decide.
        options: How groups are made.
        sampling: Whether placements are sampled; groups may then be drawn.
    """

    def __init__(self, networks: Networks, options: Options, sampling: bool) -> None:
        self.networks, self.options, self.sampling = networks, options, sampling
        self.weights = list(networks.parameters())
        self.version = version_of(self.weights)
        self.moments: dict[int, list[Moment]] = {}
        self.embeddings: Recent[tuple[tuple[int, ...], bool], Tensor] = Recent()
        self.learnable: Recent[tuple[int, ...], Tensor] = Recent()
        self.states: Recent[tuple[Key, ...], States] = Recent()
        self.answers: Recent[tuple[Key, ...], Answer] = Recent()

    @property
    def stale(self) -> bool:
        """Whether the weights have changed since it began."""
        return self.version != version_of(self.weights)

    def answer(self, graphs: GraphBatch, keys: tuple[Key, ...]) -> Answer:
        """What the networks say of (S,) states of these graphs."""
        if not torch.is_grad_enabled() and not self.stale and keys in self.answers:
            return self.answers[keys]
        if keys not in self.states:
            moments = [self.moment(graphs, *key) for key in keys]
            self.states[keys] = states_of(graphs, keys, moments)
        states = self.states[keys]
        logits, values = self.networks(self.embeddings_of(graphs), graphs, states)
        answer = Answer(logits, values, states)
        if not torch.is_grad_enabled():
            self.answers[keys] = answer
        return answer

    @torch.no_grad()
    def moment(self, graphs: GraphBatch, graph_id: int, step: int) -> Moment:
        """A graph at a step, after those before it."""
        known = self.moments.setdefault(graph_id, [])
        while len(known) <= step:
            known.append(self.after(graphs, graph_id, known[-1] if known else None))
        return known[step]

    def after(self, graphs: GraphBatch, graph_id: int, earlier: Moment | None) -> Moment:
        """The moment after another: Z <- Z + Z' (HSDAG, 2.5), and groups are made anew."""
        graph = Graph.of(graphs, graphs.ids.index(graph_id))
        z = self.embedded(graphs)[graph.nodes]
        shift = torch.zeros_like(z) if earlier is None else self.moved(z, earlier)
        if self.sampling and self.options.dropout:
            z = self.embedded(graphs, noisy=True)[graph.nodes]
        make = drawn if self.sampling and self.options.draw_groups else parsed
        state = self.networks.state(z, shift)
        partition: Partition = make(self.networks, self.options, graph, state)
        kept = torch.as_tensor(partition.kept, device=z.device)
        group = torch.as_tensor(partition.group, device=z.device)
        return Moment(group, graph.edges[:, kept], shift)

    def embeddings_of(self, graphs: GraphBatch) -> Tensor:
        """(n, hidden) to decide with; the roll-out's own while the weights are what they were.

        A gradient goes through them once: the first update needs no other pass.
        """
        if self.stale:
            return self.networks.encoder(graphs)
        if not torch.is_grad_enabled():
            return self.embedded(graphs)
        z = self.learnable.pop(graphs.ids, None)
        return self.networks.encoder(graphs) if z is None else z

    def embedded(self, graphs: GraphBatch, noisy: bool = False) -> Tensor:
        """(n, hidden) embeddings, with one draw of what is dropped for the whole roll-out."""
        key = graphs.ids, noisy
        if key not in self.embeddings:
            with torch.set_grad_enabled(self.sampling and not noisy):
                z = self.networks.encoder(graphs, noisy=noisy)
            self.embeddings[key] = z.detach()
            if z.requires_grad:
                self.learnable[graphs.ids] = z
        return self.embeddings[key]

    def moved(self, z: Tensor, earlier: Moment) -> Tensor:
        """What has been added to embeddings z after an earlier moment."""
        group, inner, shift = earlier
        state = self.networks.state(z, shift)
        return state + self.networks.pooled(state, group, inner)[group] - z


def states_of(graphs: GraphBatch, keys: tuple[Key, ...], moments: list[Moment]) -> States:
    """(S,) moments of the keys side by side."""
    rows = [graphs.ids.index(graph_id) for graph_id, _ in keys]
    sizes = np.array([len(moment.group) for moment in moments])
    begins = np.cumsum(sizes) - sizes
    n_groups = np.array([int(moment.group.max()) + 1 for moment in moments])
    first_groups = np.cumsum(n_groups) - n_groups
    node_mask: Tensor = graphs.node_mask[rows]
    state, slot = node_mask.nonzero(as_tuple=True)
    group = torch.cat([m.group + first for m, first in zip(moments, first_groups, strict=True)])
    leader = torch.arange(node_mask.shape[1], device=slot.device).repeat(len(keys), 1)
    slots = leader.clone()
    leader[state, slot] = slot[first_members(group)]
    ptr = graphs.ptr.tolist()
    ranges = [torch.arange(ptr[row], ptr[row + 1], device=slot.device) for row in rows]
    return States(
        node=torch.cat(ranges),
        state=state,
        shift=torch.cat([moment.shift for moment in moments]),
        group=group,
        inner=torch.cat([m.inner + b for m, b in zip(moments, begins, strict=True)], dim=1),
        slot=slot,
        leader=leader,
        decides=(leader == slots) & node_mask,
        allowed=allowed_by(graphs, rows, leader),
    )


def first_members(group: Tensor) -> Tensor:
    """(m,) first node of each node's group."""
    nodes = torch.arange(len(group), device=group.device)
    first = nodes.new_full((int(group.max()) + 1,), len(group))
    return first.scatter_reduce_(0, group, nodes, "amin")[group]


def allowed_by(graphs: GraphBatch, rows: list[int], leader: Tensor) -> Tensor | None:
    """(S, N, D) what all followers of each unit allow; None where everything is."""
    allowed = graphs.allowed_slots
    return None if allowed is None else together(allowed[rows], leader)


def version_of(weights: list[nn.Parameter]) -> int:
    """A number that changes when weights do, in place or by other memory; see also ``renew``."""
    return hash(tuple((p._version, p.data_ptr()) for p in weights))
