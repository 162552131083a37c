"""Placeto's networks: messages along and against the edges, and summaries of related units."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agents.placeto.structure import RELATIONS, Structure

DIRECTIONS = 2


class Perceptrons(nn.Module):
    """Several perceptrons with one hidden layer, evaluated together on separate inputs.

    Args:
        number: Number of perceptrons.
        width: Width of the input of each.
        hidden: Width of the hidden layer.
        out: Width of the output.
    """

    def __init__(self, number: int, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.enter, self.enter_bias = init_layers(number, width, hidden)
        self.leave, self.leave_bias = init_layers(number, hidden, out)

    def forward(self, x: Tensor) -> Tensor:
        """(number, m, out) from (number, m, width)."""
        hidden = torch.baddbmm(self.enter_bias, x, self.enter).relu()
        return torch.baddbmm(self.leave_bias, hidden, self.leave)


def init_layers(number: int, width: int, out: int) -> tuple[nn.Parameter, nn.Parameter]:
    """Make weights and biases of linear layers, initialised as in ``nn.Linear``."""
    bound = width**-0.5
    weight, bias = torch.empty(number, width, out), torch.empty(number, 1, out)
    return nn.Parameter(weight.uniform_(-bound, bound)), nn.Parameter(bias.uniform_(-bound, bound))


class Embedding(nn.Module):
    """Embeddings of units from messages of producers and, separately, of consumers.

    y = h + g(sum over neighbours of f(y)), ``rounds`` times, with separate weights for the two
    directions (Addanki et al. 2019, section 3.2).

    Args:
        width: Width of a unit's input.
        hidden: Width of an embedding in one direction.
        rounds: Number of message rounds.
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
    """Networks that summarise the state of an episode around the current unit.

    Args:
        n_static: Columns of ``Structure.static``.
        n_devices: Number of devices.
        hidden: See ``Embedding``.
        rounds: See ``Embedding``.
        critic: Whether to build a critic.
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
        """(B, 8 * hidden) current unit, and summaries of ancestors, descendants, parallel units.

        Args:
            x: (n, B, width) inputs of the units in B states of one graph.
            structure: Structure of the graph.
            current: (B,) current units.
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
