"""Local search by a learned proposal: a window of the best placement so far is drawn anew.

What is drawn has a likelihood given the devices of the others, so the policy gradient goes on.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from agents.common.evaluated import BestRows
from agents.common.following import FollowingDevices
from agents.common.graphs import TensorDict
from placement_gym.base.arrays import BoolArray

WINDOW = "window"
"""Name in a rollout's observations of the (N,) bool units whose devices were drawn."""
TRIES = 16
"""Draws of which the first that differs from the best placement is taken."""


class Redraws:
    """Draws placements near the best one of each graph. Saved models name this class.

    A window is a run of units in topological order. Its size is log-uniform from one unit to all
    and its place uniform; neither is learned. Draws that repeat the best placement are drawn again.
    That scales the likelihoods of all others alike, which adds nothing to a gradient whose
    advantages sum to zero, as those above the mean of the others do.

    Args:
        best: The best placements so far.
    """

    def __init__(self, best: BestRows) -> None:
        self.best = best
        self.windows: list[BoolArray] = []

    @torch.no_grad()
    def draw(self, observation: TensorDict, whole: FollowingDevices) -> tuple[Tensor, Tensor]:
        """Draw placements for (B, ...) observations, and keep their windows.

        Args:
            observation: Tensors of the environment's observation space.
            whole: The distribution of whole placements, from which graphs without a best one draw.

        Returns:
            (B, N) devices and (B, N) bool, the units that were drawn.
        """
        base, known = self.find_bases(observation)
        mask = observation["node_mask"].bool()
        # all tries at once; the first that differs is taken, or else the first
        base, known, mask = (one.repeat_interleave(TRIES, 0) for one in (base, known, mask))
        windows = torch.where(known[:, None], draw_windows(mask), mask)
        tried = whole.within(windows, base).get_actions()
        differs = (tried != base).any(dim=1).view(-1, TRIES)
        first = torch.arange(len(differs), device=mask.device) * TRIES
        taken = first + differs.int().argmax(dim=1)
        self.windows.append(windows[taken].cpu().numpy())
        return tried[taken], windows[taken]

    def find_bases(self, observation: TensorDict) -> tuple[Tensor, Tensor]:
        """(B, N) best placements so far, and (B,) bool, whether there is one."""
        mask = observation["node_mask"]
        best = [self.best.get(graph) for graph in observation["graph_id"].flatten().tolist()]
        base = np.zeros(mask.shape, dtype=np.int64)
        for row, found in enumerate(best):
            if found is not None:
                base[row] = found[1]
        known = torch.tensor([found is not None for found in best], device=mask.device)
        return torch.as_tensor(base, device=mask.device), known


def draw_windows(mask: Tensor) -> Tensor:
    """(B, N) bool, a run of the units of each row; a (B, N) bool mask has these first."""
    n = mask.sum(dim=1, keepdim=True)
    size, place = torch.rand(2, len(mask), 1, device=mask.device)
    length = (n + 1.0).pow(size).long()
    first = (place * (n - length + 1)).long()
    units = torch.arange(mask.shape[1], device=mask.device)
    return (units >= first) & (units < first + length)
