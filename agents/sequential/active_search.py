"""Fine-tuning on one problem while it is searched: efficient active search (Hottung et al. 2022).

The encoder stays as it is. Its output, the hidden values of every unit on every device, becomes
weights of the problem, which learn together with the scorer: every batch of evaluations raises the
likelihood of placements that are faster than the others of the batch (policy gradient), and of the
fastest one so far (imitation).
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from agents.search.search import UNFIT
from agents.sequential.agent import Sequential
from agents.sequential.decoding import replay
from agents.sequential.imitation import WORST
from agents.sequential.network import Network
from placement_gym.arrays import FloatArray, IntArray

SEEN = 8
"""Placements of a batch that are learned from: as many of the fastest as of the slowest."""
IMITATION = 1.0
"""Weight of the fastest placement beside the policy gradient."""
LEARNING_RATE = 0.01


class ActiveSearch(Sequential):
    """A sequential placer whose copy of the network learns from every batch that it evaluates.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of all random numbers.
        network: Where it starts; it is not changed.
        learning_rate: Of Adam.
        imitation: Weight of the fastest placement beside the policy gradient.
        kwargs: As for ``Sequential``.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int,
        network: Network,
        learning_rate: float = LEARNING_RATE,
        imitation: float = IMITATION,
        **kwargs: Any,
    ) -> None:
        super().__init__(env, seed, deepcopy(network), **kwargs)
        self.imitation = imitation
        self.table = torch.from_numpy(self.placer.table).requires_grad_()
        copied = self.placer.network
        weights = [self.table, copied.step.weight, copied.out.weight, copied.sharpness]
        self.optimizer = torch.optim.Adam(weights, lr=learning_rate)

    def keep_parents(self, placements: IntArray, speedups: FloatArray, prices: FloatArray) -> None:
        """Keep the fastest as parents, and learn from all of the batch."""
        super().keep_parents(placements, speedups, prices)
        if len(self.parents):
            self.update(placements, speedups)

    def update(self, placements: IntArray, speedups: FloatArray) -> None:
        """Take one step towards what is faster.

        Args:
            placements: (k, n_units) that were evaluated.
            speedups: (k,) likewise, ``UNFIT`` where infeasible.
        """
        chosen = choose_extremes(speedups)
        advantages = torch.from_numpy(compute_advantages(speedups[chosen]))
        followed = np.concatenate([self.parents[:1], placements[chosen]])
        likelihood = self.compute_likelihood(followed)
        gain = self.imitation * likelihood[0]
        if len(chosen) > 1:
            gain = gain + (advantages * likelihood[1:]).mean()
        self.optimizer.zero_grad()
        (-gain).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.placer.refresh_scorer()

    def compute_likelihood(self, placements: IntArray) -> Tensor:
        """(k,) mean log-probability of a choice in each of (k, n_units) placements."""
        seen, gap, allowed = map(
            torch.from_numpy, replay(self.placer.board, self.placer.scorer, placements)
        )
        logits = self.placer.network.score(self.table, seen, gap)
        logits = logits.masked_fill(~allowed, -torch.inf)
        chosen = torch.from_numpy(placements)[..., None]
        steps = logits.log_softmax(dim=-1).gather(-1, chosen)[..., 0]
        return steps.clamp(min=WORST).mean(dim=1)


def choose_extremes(speedups: FloatArray) -> IntArray:
    """Indices of the ``SEEN`` / 2 fastest and as many of the slowest, or of all if they are few."""
    order = np.argsort(-speedups, kind="stable")
    if len(order) <= SEEN:
        return order
    return np.concatenate([order[: SEEN // 2], order[-(SEEN // 2) :]])


def compute_advantages(speedups: FloatArray) -> FloatArray:
    """(k,) float32 standardised logarithms of (k,) speed-ups, the worst where infeasible."""
    logs = np.log(np.where(speedups > UNFIT, speedups, np.inf))
    fits = np.isfinite(logs)
    worst = logs[fits].min() if fits.any() else 0.0
    logs = np.where(fits, logs, worst)
    advantages: FloatArray = ((logs - logs.mean()) / (logs.std() + 1e-8)).astype(np.float32)
    return advantages
