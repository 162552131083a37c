"""Placeto's networks in the order of the paper: inputs, embeddings, summaries, devices (3.2).

The inputs here are static; ``policy.make_inputs`` adds those that change from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agents.common import GraphBatch, describe_units_on_devices
from placement_gym.base import IntArray
from placement_gym.envs import FEATURES

DIRECTIONS, RELATIONS = 2, 3
EPSILON = 1e-6


@dataclass(frozen=True, eq=False)
class Structure:
    """Static arrays of one graph."""

    # (n, S) times on each device, divided by the largest of all, and the work features, each
    # divided by its largest value
    static: Tensor
    # (2n, 2n) sparse; the first n rows sum over producers, the others over consumers
    messages: Tensor
    has_neighbours: Tensor  # (2n, 1) 1 for rows of ``messages`` that are not empty
    # (3, n, n) 1 where the column's unit is an ancestor of, a descendant of, or parallel to the
    # row's unit
    related: Tensor
    allowed: Tensor | None  # (n, D) bool, allowed devices of each unit; None if unknown

    @classmethod
    def from_batch(cls, graphs: GraphBatch, graph: int, n_devices: int, devices: bool) -> Structure:
        """Compute the arrays; ``devices`` adds features of ``agents.common.devices``."""
        nodes, edges = graphs.nodes_of(graph), graphs.edges_of(graph)
        n = nodes.stop - nodes.start
        x, cost = graphs.x[nodes], FEATURES["cost"].start
        times, work = x[:, cost : cost + n_devices], x[:, FEATURES["work"]]
        # The paper divides each column by its maximum. Deviation: times on all devices have one
        # divisor, so devices can be compared.
        times = times / times.max().clamp(min=EPSILON)
        work = work / work.amax(dim=0).clamp(min=EPSILON)
        static = [times, work]
        if devices:
            static.append(describe_units_on_devices(graphs)[nodes].flatten(1))
        # one sparse product passes messages in both directions
        both = torch.cat([edges.flip(0), edges + n], dim=1)
        ones = torch.ones(both.shape[1], device=both.device)
        size = (2 * n, 2 * n)
        messages = torch.sparse_coo_tensor(both, ones, size, check_invariants=True).coalesce()
        count = torch.zeros(2 * n, device=both.device).index_add(0, both[0], ones)
        return cls(
            static=torch.cat(static, dim=1),
            messages=messages,
            has_neighbours=(count > 0).float()[:, None],
            related=torch.as_tensor(find_relations(edges.cpu().numpy(), n), device=both.device),
            allowed=None if graphs.action_mask is None else graphs.action_mask[nodes],
        )


def find_relations(edges: IntArray, n: int) -> NDArray[np.float32]:
    """(3, n, n), see ``Structure.related``."""
    ancestors = np.zeros((n, n), dtype=bool)
    for source, target in edges[:, np.argsort(edges[1], kind="stable")].T:
        ancestors[target] |= ancestors[source]
        ancestors[target, source] = True
    parallel = ~(ancestors | ancestors.T | np.eye(n, dtype=bool))
    return np.stack([ancestors, ancestors.T, parallel]).astype(np.float32)


class Perceptrons(nn.Module):
    """Perceptrons with one hidden layer, evaluated together on separate inputs."""

    def __init__(self, number: int, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.enter, self.enter_bias = init_layers(number, width, hidden)
        self.leave, self.leave_bias = init_layers(number, hidden, out)

    def forward(self, x: Tensor) -> Tensor:
        """(number, m, out) from (number, m, width)."""
        hidden = torch.baddbmm(self.enter_bias, x, self.enter).relu()
        return torch.baddbmm(self.leave_bias, hidden, self.leave)


def init_layers(number: int, width: int, out: int) -> tuple[nn.Parameter, nn.Parameter]:
    """Make weights and biases of linear layers, initialised like those of ``nn.Linear``."""
    bound = width**-0.5
    weight, bias = torch.empty(number, width, out), torch.empty(number, 1, out)
    return nn.Parameter(weight.uniform_(-bound, bound)), nn.Parameter(bias.uniform_(-bound, bound))


class Embedding(nn.Module):
    """Embeddings of units from messages of producers and, separately, of consumers.

    y_v = h_v + g(sum over neighbours u of f(y_u)), ``rounds`` times, with separate weights for the
    two directions (Addanki et al. 2019, section 3.2). Units without neighbours keep h_v.
    """

    def __init__(self, width: int, hidden: int, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.own = Perceptrons(1, width, hidden, hidden)
        self.send = Perceptrons(DIRECTIONS, hidden, hidden, hidden)
        self.receive = Perceptrons(DIRECTIONS, hidden, hidden, hidden)

    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        """(n * B, 2 * hidden) from (n * B, width) inputs of B states of one graph."""
        n = len(structure.has_neighbours) // 2
        h = self.own(x[None]).expand(DIRECTIONS, -1, -1)
        y = h
        for _ in range(self.rounds):
            sent = self.send(y).reshape(2 * n, -1)
            got = torch.sparse.mm(structure.messages, sent).view(h.shape)
            change = self.receive(got).view(2 * n, -1) * structure.has_neighbours
            y = h + change.view(h.shape)
        return torch.cat([y[0], y[1]], dim=1)


class Networks(nn.Module):
    """Embeddings, summaries around the current unit, and the policy over devices (3.2).

    [e_c, g_P(sum of f_P over ancestors), g_C(sum of f_C over descendants), g_R(sum of f_R over
    parallel units)] enters a network of widths 16 d and 8 d. The critic, which the paper lacks, is
    for algorithms that need one.
    """

    def __init__(
        self, n_static: int, n_devices: int, hidden: int, rounds: int, critic: bool
    ) -> None:
        super().__init__()
        self.embedding = Embedding(n_static + 3 + n_devices, hidden, rounds)
        both = 2 * hidden
        self.send = Perceptrons(RELATIONS, both, both, both)
        self.receive = Perceptrons(RELATIONS, both, both, both)
        self.placer = make_head((1 + RELATIONS) * both, hidden, n_devices)
        self.critic = make_head((1 + RELATIONS) * both, hidden, 1) if critic else None

    def summarize(self, x: Tensor, structure: Structure, current: Tensor) -> Tensor:
        """(B, 8 * hidden) of (B,) current units, their ancestors, descendants and parallel units.

        From (n, B, width) inputs of the units in B states of one graph.
        """
        n, n_states = x.shape[:2]
        e = self.embedding(x.reshape(n * n_states, -1), structure)
        sent = self.send(e.expand(RELATIONS, -1, -1)).view(RELATIONS, n, n_states, -1)
        related = structure.related[:, current]
        summed = torch.einsum("rbn,rnbw->rbw", related, sent)
        summaries = self.receive(summed).transpose(0, 1).flatten(1)
        own = e.view(n, n_states, -1)[current, torch.arange(n_states, device=e.device)]
        return torch.cat([own, summaries], dim=1)


def make_head(width: int, hidden: int, out: int) -> nn.Sequential:
    """Make hidden layers of 16 and 8 times the embedding's width, and an output layer."""
    return nn.Sequential(
        nn.Linear(width, 16 * hidden),
        nn.ReLU(),
        nn.Linear(16 * hidden, 8 * hidden),
        nn.ReLU(),
        nn.Linear(8 * hidden, out),
    )
