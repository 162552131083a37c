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
"""Share of the model's bytes that is kept free: observations round shares to float32, whose
relative error is 6e-8, and units add up."""


def lacks_repair(env: DevicePlacementEnv) -> bool:
    """Return whether memory limits placements and the environment repairs none."""
    return env.backend.limits_weights and not env.repair


@dataclass(frozen=True, eq=False)
class FreeMemory:
    """Bytes of the places of B sequences, and limits of devices, as shares of the model's bytes.

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
        """The free memory of rows whose places are the padded units of (B,) graphs of a batch.

        Raises:
            UserError: The graphs do not hold the limits of devices.
        """
        tables = graphs.device_tables
        place_bytes = graphs.pad(tables.unit_bytes[:, None])[..., 0]
        limit, has_limit = tables.devices[..., 0].double(), tables.devices[..., 1] > 0
        limits = torch.where(has_limit, limit - ROUNDING, torch.inf)
        # Devices of one pool share its limit; 0 is no pool, and such a device shares with itself
        # alone.
        pool = tables.memory_pool
        same_pool = (pool[:, :, None] == pool[:, None]) & (pool[:, None] > 0)
        shared = same_pool | torch.eye(pool.shape[1], dtype=torch.bool, device=pool.device)
        supported = graphs.allowed_slots
        if supported is None:
            supported = torch.ones(
                *place_bytes.shape, pool.shape[1], dtype=torch.bool, device=row.device
            )
        return cls(place_bytes[row], limits[row], shared[row].double(), supported[row])

    def mask(self, place: int | Tensor, used: Tensor) -> Tensor:
        """(B, D) bool, devices with room for a place of each row.

        Args:
            place: Index of the place, or (B,) one for each row.
            used: (B, D) bytes of the places before it on each device.
        """
        rows = torch.arange(len(self.held), device=self.held.device)
        free_bytes = (
            self.limits - (used[:, None] @ self.shared)[:, 0] - self.held[rows, place][:, None]
        )
        return mask_places(self.supported[rows, place], free_bytes)

    def masks(self, devices: Tensor) -> Tensor:
        """(B, M, D) bool, devices with room for each place, given (B, M) devices of all places."""
        bytes_on_device = one_hot(devices.long(), self.limits.shape[1]) * self.held[..., None]
        # Places are filled in order: each sees the bytes of those before it.
        bytes_before = bytes_on_device.cumsum(dim=1) - bytes_on_device
        free_bytes = self.limits[:, None] - bytes_before @ self.shared - self.held[..., None]
        return mask_places(self.supported, free_bytes)

    def count_used(self, devices: Tensor, is_placed: Tensor) -> Tensor:
        """(B, D) bytes in use by the places that (B, M) ``is_placed`` marks, on (B, M) devices."""
        zeros = torch.zeros_like(self.limits)
        return zeros.scatter_add(1, devices.long(), self.held * is_placed)

    def add(self, used: Tensor, place: int, devices: Tensor) -> Tensor:
        """(B, D) bytes in use after a place was put on (B,) devices."""
        return used.scatter_add(1, devices[:, None], self.held[:, place, None])


def mask_places(supported: Tensor, free_bytes: Tensor) -> Tensor:
    """Apply ``mask_by_room`` to tensors."""
    mask = mask_by_room(supported.cpu().numpy(), free_bytes.cpu().numpy())
    return torch.from_numpy(mask).to(free_bytes.device)
