"""Free memory of devices while policies place one unit after another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from agents.common.graphs import GraphBatch
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.problem.free_memory import mask_by_room

ROUNDING = 1e-6
"""Share of the model's bytes that is kept free, as shares are rounded to float32."""


def lacks_repair(env: DevicePlacementEnv) -> bool:
    """Tell if memory limits placements and nothing repairs those that do not fit."""
    return env.backend.limits_weights and not env.repair


@dataclass(frozen=True, eq=False)
class FreeMemory:
    """What the places of B sequences hold, and what devices can hold; shares of the model's bytes.

    Attributes:
        held: (B, M) float64 bytes of each place.
        limits: (B, D) float64, infinite without a limit.
        shared: (B, D, D) float64, 1 where two devices share memory.
        supported: (B, M, D) bool, devices that run each place.
    """

    held: Tensor
    limits: Tensor
    shared: Tensor
    supported: Tensor

    @classmethod
    def of(cls, graphs: GraphBatch, row: Tensor) -> FreeMemory:
        """That of rows whose places are the padded units of (B,) graphs of a batch.

        Raises:
            UserError: The graphs do not hold the limits of devices.
        """
        tables = graphs.device_tables
        held = graphs.pad(tables.unit_bytes[:, None])[..., 0]
        limit, limited = tables.devices[..., 0].double(), tables.devices[..., 1] > 0
        limits = torch.where(limited, limit - ROUNDING, torch.inf)
        pool = tables.memory_pool
        same = (pool[:, :, None] == pool[:, None]) & (pool[:, None] > 0)
        shared = same | torch.eye(pool.shape[1], dtype=torch.bool, device=pool.device)
        supported = graphs.allowed_slots
        if supported is None:
            supported = torch.ones(*held.shape, pool.shape[1], dtype=torch.bool, device=row.device)
        return cls(held[row], limits[row], shared[row].double(), supported[row])

    def mask(self, place: int | Tensor, used: Tensor) -> Tensor:
        """(B, D) bool, devices with room for a place of each row.

        Args:
            place: Index of the place, or (B,) one for each row.
            used: (B, D) bytes of the places before it on each device.
        """
        rows = torch.arange(len(self.held), device=self.held.device)
        left = self.limits - (used[:, None] @ self.shared)[:, 0] - self.held[rows, place][:, None]
        return mask_places(self.supported[rows, place], left)

    def masks(self, devices: Tensor) -> Tensor:
        """(B, M, D) bool, devices with room for each place, given (B, M) devices of all places."""
        taken = one_hot(devices.long(), self.limits.shape[1]) * self.held[..., None]
        before = taken.cumsum(dim=1) - taken
        left = self.limits[:, None] - before @ self.shared - self.held[..., None]
        return mask_places(self.supported, left)

    def count_used(self, devices: Tensor, placed: Tensor) -> Tensor:
        """(B, D) bytes in use by the places that (B, M) ``placed`` marks, on (B, M) devices."""
        zeros = torch.zeros_like(self.limits)
        return zeros.scatter_add(1, devices.long(), self.held * placed)

    def add(self, used: Tensor, place: int, devices: Tensor) -> Tensor:
        """(B, D) bytes in use after a place was put on (B,) devices."""
        return used.scatter_add(1, devices[:, None], self.held[:, place, None])


def mask_places(supported: Tensor, left: Tensor) -> Tensor:
    """See ``mask_by_room``, for tensors."""
    found = mask_by_room(supported.cpu().numpy(), left.cpu().numpy())
    return torch.from_numpy(found).to(left.device)
