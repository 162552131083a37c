"""Units that are placed together, as the groups of the hierarchical placer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agents.common import intersect_followers


@dataclass(frozen=True, eq=False)
class Places:
    """Units of B sequences that are placed together; places are in the order of first units.

    Attributes:
        place: (B, N) place of each unit, 0 for padding.
        mask: (B, N) bool, False for padding.
        is_place: (B, M) bool, False for padding.
    """

    place: Tensor
    mask: Tensor
    is_place: Tensor

    def mean(self, values: Tensor) -> Tensor:
        """(B, M, F) means over places of (B, N, F) values, zero where padded."""
        index, mask = self.place[..., None].expand_as(values), self.mask.to(values.dtype)
        zeros = values.new_zeros(*self.is_place.shape, values.shape[2])
        total = zeros.scatter_add(1, index, values * mask[..., None])
        count = values.new_zeros(self.is_place.shape).scatter_add(1, self.place, mask)
        return total / count.clamp(min=1.0)[..., None]

    def share_allowed(self, allowed: Tensor) -> Tensor:
        """(B, M, D) bool, the devices that all units of a place allow, of (B, N, D)."""
        allowed = allowed | ~self.mask[..., None]
        return intersect_followers(allowed, self.place, self.is_place.shape[1])

    def spread(self, devices: Tensor) -> Tensor:
        """(B, N) device of each unit, of (B, M) devices; 0 for padding."""
        return devices.gather(1, self.place) * self.mask


def order_groups(groups: Tensor, mask: Tensor) -> Places:
    """Order groups by their first units; deviation: the paper orders them by their numbers.

    Args:
        groups: (B, N) group of each unit.
        mask: (B, N) bool, False for padding.
    """
    n_groups, n = int(groups.max()) + 1, groups.shape[1]
    unit = torch.arange(n, device=groups.device).expand_as(groups).where(mask, n)
    first = torch.full((len(groups), n_groups), n, device=groups.device)
    first.scatter_reduce_(1, groups, unit, "amin")
    present = first < n
    rank = first.argsort(dim=1).argsort(dim=1)
    most = int(present.sum(dim=1).max())
    ordered = present.gather(1, first.argsort(dim=1))[:, :most]
    return Places(rank.gather(1, groups) * mask, mask, ordered)
