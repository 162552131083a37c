"""Values that each placement of a rollout was sampled with."""

from __future__ import annotations

import torch
from torch import Tensor

Key = tuple[int, bytes]
"""``graph_id`` and devices."""


class PlacementMemory:
    """Values of placements that a rollout buffer has no place for, as the groups of their units.

    A placement that is sampled again keeps the values of its first time. Where these are groups,
    both groupings are samples of the same conditional distribution, so the estimate of the gradient
    stays unbiased; only its variance grows with the number of equal placements in a rollout.
    """

    def __init__(self) -> None:
        self.values: dict[Key, Tensor] = {}

    def keep(self, graph: Tensor, placements: Tensor, values: Tensor) -> None:
        """Store (B, ...) values of (B, N) placements on graphs with (B,) ``graph_id``."""
        for key, value in zip(make_keys(graph, placements), values, strict=True):
            self.values.setdefault(key, value)

    def recall(self, graph: Tensor, placements: Tensor, fallback: Tensor) -> Tensor:
        """(B, ...) values of (B, N) placements; ``fallback`` for those that were not sampled."""
        keys = make_keys(graph, placements)
        known = [self.values.get(key, one) for key, one in zip(keys, fallback, strict=True)]
        return torch.stack(known)


def make_keys(graph: Tensor, placements: Tensor) -> list[Key]:
    """Make hashable keys of (B, N) placements on graphs with (B,) ``graph_id``."""
    rows = placements.to(torch.uint8).cpu().numpy()
    ids = graph.flatten().tolist()
    return [(int(graph_id), row.tobytes()) for graph_id, row in zip(ids, rows, strict=True)]
