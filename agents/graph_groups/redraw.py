"""Local search with a learned proposal: a window of the best placement is drawn again.

The drawn devices have a likelihood given those of the other units: the policy gradient applies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from agents.best import BestPlacements
from agents.common import REINFORCE, TensorDict
from agents.graph_groups.following import FollowingDevices
from agents.graph_groups.policy import WINDOW, GraphGroupsPolicy
from placement_gym.base import BoolArray, UserError, check_integer
from placement_gym.envs import read_graph_id

MAX_DRAWS = 16
"""Draws, of which the first that differs from the best placement is taken. Hand-tuned: a policy
with 16 equal draws has converged."""


class RedrawingREINFORCE(REINFORCE):
    """REINFORCE that, after some placements, only draws a window of the best one again.

    Args:
        policy: ``GraphGroupsPolicy``.
        env: As for ``REINFORCE``, with episodes of one placement.
        redraw: Placements after which only a window of the best one so far is drawn again, see
            ``Redraws``; None always draws all units.
        kwargs: As for ``REINFORCE``.
    """

    def __init__(self, policy: Any, env: Any, redraw: int | None = None, **kwargs: Any) -> None:
        if redraw is not None:
            check_integer("redraw", redraw, 0)
        self.redraw = redraw
        super().__init__(policy, env, **kwargs)

    def _setup_model(self) -> None:
        super()._setup_model()
        spaces: Any = self.observation_space
        if self.redraw is not None and spaces["step"].count > 1:
            raise UserError("redraw needs episodes of one placement: pass horizon=1")

    def collect_rollouts(self, *args: Any, **kwargs: Any) -> bool:
        """See SB3; decides whether the policy draws windows in this rollout."""
        assert isinstance(self.policy, GraphGroupsPolicy)
        due = self.redraw is not None and self.num_timesteps >= self.redraw
        self.policy.redraws = Redraws(self.best) if due else None
        return super().collect_rollouts(*args, **kwargs)

    def train(self) -> None:
        """See ``REINFORCE``; the likelihood is that of what was drawn."""
        assert isinstance(self.policy, GraphGroupsPolicy)
        observations: Any = self.rollout_buffer.observations
        if self.policy.redraws is not None:
            observations[WINDOW] = np.stack(self.policy.redraws.windows)
        super().train()


class Redraws:
    """Draws windows of the best placement of each graph again.

    A window is a run of units in topological order of log-uniform size and uniform place; neither
    is learned. Draws that repeat the best placement are rejected. That scales the likelihoods of
    all others alike, which adds nothing to a gradient whose advantages sum to zero, as those with a
    ``leave_one_out`` baseline do.
    """

    def __init__(self, best: BestPlacements) -> None:
        self.best = best
        self.windows: list[BoolArray] = []

    @torch.no_grad()
    def draw(self, observation: TensorDict, whole: FollowingDevices) -> tuple[Tensor, Tensor]:
        """(B, N) devices for (B, ...) observations, and (B, N) bool, the units that were drawn.

        ``whole`` is the distribution of whole placements. Windows are kept for the update.
        """
        base, has_best = self.find_bases(observation)
        mask = observation["node_mask"].bool()
        # one batch of all draws takes less time than drawing until one differs
        base, has_best, mask = (
            tensor.repeat_interleave(MAX_DRAWS, 0) for tensor in (base, has_best, mask)
        )
        # without a best placement the window is the whole graph
        windows = torch.where(has_best[:, None], draw_windows(mask), mask)
        draws = whole.within(windows, base).get_actions()
        differs = (draws != base).any(dim=1).view(-1, MAX_DRAWS)
        first_draw = torch.arange(len(differs), device=mask.device) * MAX_DRAWS
        # argmax is the first that differs, or the first of all
        selected = first_draw + differs.int().argmax(dim=1)
        self.windows.append(windows[selected].cpu().numpy())
        return draws[selected], windows[selected]

    def find_bases(self, observation: TensorDict) -> tuple[Tensor, Tensor]:
        """(B, N) best placements so far, and (B,) bool, the rows that have one."""
        mask = observation["node_mask"]
        graphs = read_graph_id(observation).flatten().tolist()
        best_rows = [self.best.get(graph) for graph in graphs]
        base = np.zeros(mask.shape, dtype=np.int64)
        for row, entry in enumerate(best_rows):
            if entry is not None:
                base[row] = entry.row
        has_best = torch.tensor([entry is not None for entry in best_rows], device=mask.device)
        return torch.as_tensor(base, device=mask.device), has_best


def draw_windows(mask: Tensor) -> Tensor:
    """(B, N) bool, a run of the units of each row, which come first in the (B, N) bool mask."""
    n = mask.sum(dim=1, keepdim=True)
    size, place = torch.rand(2, len(mask), 1, device=mask.device)
    # log-uniform: small windows refine and large ones escape, and no size is tuned
    length = (n + 1.0).pow(size).long()
    start = (place * (n - length + 1)).long()
    units = torch.arange(mask.shape[1], device=mask.device)
    return (units >= start) & (units < start + length)
