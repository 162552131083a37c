"""Local search with a learned proposal: a window of the best placement is drawn again.

The drawn devices have a likelihood given those of the other units, so that the policy gradient
still applies.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from agents.common.evaluated import BestRows
from agents.common.following import FollowingDevices
from agents.common.graphs import TensorDict
from placement_gym.base.arrays import BoolArray
from placement_gym.envs.scaling import read_graph_id

WINDOW = "window"
"""Name in a rollout's observations of the (N,) bool units whose devices were drawn."""
MAX_DRAWS = 16
"""Draws, of which the first that differs from the best placement is taken: ours, since a policy
with 16 equal draws has converged."""


class Redraws:
    """Draws placements near the best one of each graph. Saved models name this class.

    A window is a run of units in topological order. Its size is log-uniform from one unit to all
    and its place uniform; neither is learned. Draws that repeat the best placement are drawn again.
    That scales the likelihoods of all others alike, which adds nothing to a gradient whose
    advantages sum to zero, as those above the mean of the others do.
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
        base, has_best = self.find_bases(observation)
        mask = observation["node_mask"].bool()
        # All draws in one batch, which costs less than drawing until one differs; argmax of the
        # first True, or of the first draw if none differs.
        base, has_best, mask = (
            tensor.repeat_interleave(MAX_DRAWS, 0) for tensor in (base, has_best, mask)
        )
        # Without a best placement the window is the whole graph.
        windows = torch.where(has_best[:, None], draw_windows(mask), mask)
        draws = whole.within(windows, base).get_actions()
        differs = (draws != base).any(dim=1).view(-1, MAX_DRAWS)
        first_draw = torch.arange(len(differs), device=mask.device) * MAX_DRAWS
        selected = first_draw + differs.int().argmax(dim=1)
        self.windows.append(windows[selected].cpu().numpy())
        return draws[selected], windows[selected]

    def find_bases(self, observation: TensorDict) -> tuple[Tensor, Tensor]:
        """(B, N) best placements so far, and (B,) bool, whether there is one."""
        mask = observation["node_mask"]
        best_rows = [
            self.best.get(graph) for graph in read_graph_id(observation).flatten().tolist()
        ]
        base = np.zeros(mask.shape, dtype=np.int64)
        for row, entry in enumerate(best_rows):
            if entry is not None:
                base[row] = entry[1]
        has_best = torch.tensor([entry is not None for entry in best_rows], device=mask.device)
        return torch.as_tensor(base, device=mask.device), has_best


def draw_windows(mask: Tensor) -> Tensor:
    """(B, N) bool, a run of the units of each row; a (B, N) bool mask has these first."""
    n = mask.sum(dim=1, keepdim=True)
    size, place = torch.rand(2, len(mask), 1, device=mask.device)
    # Log-uniform: small windows refine and large ones escape, and no size is tuned.
    length = (n + 1.0).pow(size).long()
    start = (place * (n - length + 1)).long()
    units = torch.arange(mask.shape[1], device=mask.device)
    return (units >= start) & (units < start + length)
