"""Fine-tuning on one problem while it is searched: efficient active search (Hottung et al. 2022).

The encoder stays as it is. Its output, the hidden values of every unit on every device, becomes
weights of the problem, which learn together with the scorer: after every batch of evaluations the
likelihood of the fastest placement so far is raised. A policy gradient beside this imitation added
nothing on validation problems and is left out.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from agents.sequential.decoding import replay
from agents.sequential.imitation import WORST
from agents.sequential.network import Network
from agents.sequential.search import Sequential
from placement_gym.arrays import FloatArray, IntArray

LEARNING_RATE = 0.01
BEGIN = 100
"""Evaluations before the first update: what is fastest before them is soon beaten."""


class ActiveSearch(Sequential):
    """A sequential placer whose copy of the network imitates the fastest placement so far.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        network: Where it starts; it is not changed.
        learning_rate: Of Adam.
        begin: Evaluations before the first update.
        kwargs: As for ``Sequential``.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        network: Network,
        learning_rate: float = LEARNING_RATE,
        begin: int = BEGIN,
        **kwargs: Any,
    ) -> None:
        super().__init__(env, seed, deepcopy(network), **kwargs)
        self.begin = begin
        self.table = torch.from_numpy(self.placer.table).requires_grad_()
        copied = self.placer.network
        layers = (copied.step, copied.out, copied.direct, copied.bias)
        scorer = [weight for layer in layers for weight in layer.parameters()]
        weights = [self.table, *scorer, copied.sharpness]
        self.optimizer = torch.optim.Adam(weights, lr=learning_rate)

    def keep_parents(self, placements: IntArray, speedups: FloatArray, prices: FloatArray) -> None:
        """Keep the fastest placements of a batch as parents, and learn from the first of all."""
        super().keep_parents(placements, speedups, prices)
        if len(self.parents) and self.evaluations > self.begin:
            self.update()

    def update(self) -> None:
        """Take one step towards the fastest placement."""
        loss = -self.compute_likelihood(self.parents[:1]).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.placer.refresh_scorer()

    def compute_likelihood(self, placements: IntArray) -> Tensor:
        """(k,) mean log-probability of a choice in each of (k, n_units) placements."""
        seen, gap, allowed = map(
            torch.from_numpy, replay(self.placer.board, self.placer.scorer, placements)
        )
        network = self.placer.network
        bias = network.prefer(self.placer.hidden, self.placer.graph)
        logits = network.score(bias, self.table, seen, gap)
        logits = logits.masked_fill(~allowed, -torch.inf)
        chosen = torch.from_numpy(placements)[..., None]
        steps = logits.log_softmax(dim=-1).gather(-1, chosen)[..., 0]
        return steps.clamp(min=WORST).mean(dim=1)
