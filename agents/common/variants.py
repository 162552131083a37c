"""Which grouping each placement of a rollout was sampled with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

Sampled = tuple[int, int, bytes]
"""``graph_id``, step and devices."""


class VariantMemory:
    """The groupings of placements; one that is sampled again keeps that of its first time."""

    def __init__(self) -> None:
        self.variants: dict[Sampled, int] = {}

    def keep(self, observation: Any, actions: Tensor, variants: Tensor) -> Tensor:
        """Store the (B,) groupings of (B, N) devices, and return those that hold for them."""
        for key, variant in zip(make_keys(observation, actions), variants.tolist(), strict=True):
            self.variants.setdefault(key, variant)
        return self.recall(observation, actions)

    def recall(self, observation: Any, actions: Tensor) -> Tensor:
        """(B,) groupings of (B, N) devices, the first one for placements that were not sampled."""
        found = [self.variants.get(key, 0) for key in make_keys(observation, actions)]
        return torch.tensor(found, device=actions.device)


def make_keys(observation: Any, actions: Tensor) -> list[Sampled]:
    """Hashable keys of (B, N) devices."""
    ids, steps = (observation[key].flatten().tolist() for key in ("graph_id", "step"))
    rows = actions.to(torch.uint8).cpu().numpy()
    return [
        (int(graph), int(step), row.tobytes())
        for graph, step, row in zip(ids, steps, rows, strict=True)
    ]
