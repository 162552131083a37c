"""A network on one problem: placements, and their likelihood."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from agents.sequential.board import Board, choose_goal
from agents.sequential.decoding import Scorer, rate_plans, replay, sample
from agents.sequential.features import describe, list_edges
from agents.sequential.network import Graph, Network
from agents.sequential.outlook import MoveScorer
from placement_gym.arrays import IntArray
from placement_gym.env import DevicePlacementEnv
from placement_gym.solvers.list_sampling import Noise


class Placer:
    """Places the units of one problem one after another, in rank order.

    Args:
        network: Shared by the placers of any number of problems.
        env: Its problem, costs and schedule; nothing is evaluated.
    """

    def __init__(self, network: Network, env: DevicePlacementEnv) -> None:
        self.network = network
        problem, costs = env.problem, env.cost_table()
        self.board = rate_plans(Board.of(problem, costs, choose_goal(env.backend)))
        x = torch.from_numpy(describe(problem, costs, self.board))
        self.graph = Graph(x, *torch.from_numpy(list_edges(problem)))
        self.refresh()

    def refresh(self) -> None:
        """Take the network's weights after they have changed."""
        with torch.no_grad():
            self.hidden = self.network.embed_graph(self.graph)
            self.table = self.network.table(self.hidden).contiguous().numpy()
        self.refresh_scorer()

    def refresh_scorer(self) -> None:
        """The same if the layers of messages have not changed."""
        network = self.network
        with torch.no_grad():
            bias = network.prefer(self.hidden, self.graph).contiguous().numpy()
        step, out, direct = (
            layer.weight.detach().numpy() for layer in (network.step, network.out, network.direct)
        )
        weight, sharpness = np.ascontiguousarray(step.T), network.sharpness.item()
        self.scorer = Scorer(bias, self.table, weight, out[0], direct[0], sharpness)
        self.preference = bias.astype(np.float64)
        self.move_scorer = read_move_scorer(network)

    def sample(self, noise: Noise) -> IntArray:
        """(k, n_units) the placements that noise decodes to."""
        return sample(self.board, self.scorer, noise)

    def place(self) -> IntArray:
        """(n_units,) the placement without noise."""
        n_tasks, n_devices = self.board.decoder.ms.shape
        run = np.zeros((1, n_tasks), dtype=np.uint32)
        return self.sample(Noise(run, np.zeros((1, n_devices)), np.zeros(1)))[0]

    def log_probabilities(self, placements: IntArray, path: IntArray | None = None) -> Tensor:
        """(k, n_units) of the devices that (k, n_units) placements choose, step by step.

        The gradient reaches all weights. A choice that support or room forbids has -infinity.

        Args:
            placements: What is chosen.
            path: (k, n_units) what is decided before each choice; None takes the same placements.
        """
        path = placements if path is None else path
        seen, gap, allowed = map(torch.from_numpy, replay(self.board, self.scorer, path))
        logits = self.network.score(*self.network.encode(self.graph), seen, gap)
        logits = logits.masked_fill(~allowed, -torch.inf)
        chosen = torch.from_numpy(placements)[..., None]
        return logits.log_softmax(dim=-1).gather(-1, chosen)[..., 0]


def read_move_scorer(network: Network) -> MoveScorer:
    """What proposes moves."""
    with torch.no_grad():
        weight = np.ascontiguousarray(network.move.weight.numpy().T)
        out = network.promise.weight.numpy()[0].copy()
        return MoveScorer(weight, network.move.bias.numpy().copy(), out, bool(out.any()))
