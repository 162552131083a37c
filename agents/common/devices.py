"""Devices as policies see them: features of units on devices, and free memory.

Features are times, transfers and memory in [0, 1], without a unit, so weights transfer to any model
and any devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from agents.common.graphs import MAX_ENTRIES, GraphBatch
from placement_gym.problem import find_fitting_devices

ROUNDING = 1e-6
"""Share of the model's bytes that is kept free, as the errors of shares in float32 add up."""

COLUMNS = (
    "time above that of the fastest device",
    "time",
    "device is the fastest",
    "mean transfer of outputs",
    "mean transfer of inputs",
    "memory over the limit",
    "memory, in that of a mean unit",
    "memory of units that gain more per byte here, over the limit",
    "share of units that gain less per byte here",
    "device runs the unit",
    "device has a limit",
    "limit",
    "all limits",
    "time of a mean unit on the device",
)
"""The features of a unit on a device."""
TINY = 1e-9
"""Smallest divisor: of a device without memory, or of a unit without weights."""


@lru_cache(maxsize=MAX_ENTRIES)
def describe_units_on_devices(graphs: GraphBatch) -> Tensor:
    """(n, D, F) float32 features of the nodes on each device."""
    return torch.cat([describe_graph(graphs, graph) for graph in range(len(graphs.ids))])


def describe_graph(graphs: GraphBatch, graph: int) -> Tensor:
    """(n, D, F) features of one graph."""
    tables, nodes = graphs.device_tables, graphs.nodes_of(graph)
    ms, unit_bytes = tables.unit_ms[nodes], tables.unit_bytes[nodes].float()
    devices, links = tables.devices[graph], tables.links[graph]
    mask = graphs.action_mask
    supported = torch.ones_like(ms, dtype=torch.bool) if mask is None else mask[nodes]
    limits, has_limit = devices[:, 0], devices[:, 1] > 0
    n, n_devices = ms.shape
    # Tables also have times for unsupported devices, which must not count as the fastest.
    fastest_ms = ms.masked_fill(~supported, torch.inf).amin(dim=1, keepdim=True)
    bytes_ahead, share_below = rank_gains(ms, unit_bytes, supported & ~has_limit)
    outward, inward = sum_transfers(graphs, graph, links)
    columns = (
        squash((ms - fastest_ms).clamp(min=0.0)),
        squash(ms),
        (ms <= fastest_ms) & supported,
        squash(outward),
        squash(inward),
        (unit_bytes[:, None] / limits.clamp(min=TINY)).clamp(max=1.0),
        squash(unit_bytes * n)[:, None],
        squash(bytes_ahead / limits.clamp(min=TINY)),
        share_below,
        supported,
        has_limit,
        limits,
        (limits.sum() / 2.0).clamp(max=1.0),
        squash(devices[:, 3]),
    )
    features = [column.to(ms.dtype).expand(n, n_devices) for column in columns]
    return torch.stack(features, dim=-1)


def squash(value: Tensor) -> Tensor:
    """Map numbers from 0 to infinity to [0, 1)."""
    return 1.0 - 1.0 / (1.0 + value)


def rank_gains(ms: Tensor, unit_bytes: Tensor, is_unlimited: Tensor) -> tuple[Tensor, Tensor]:
    """(n, D) bytes of the units that save more time per byte, and share of those that save less.

    Savings are relative to the fastest device without a limit, or the slowest if all have one.
    ``is_unlimited``: (n, D) bool, devices without a limit that run the unit.
    """
    alternative_ms = ms.masked_fill(~is_unlimited, torch.inf).amin(dim=1)
    alternative_ms = torch.where(alternative_ms.isfinite(), alternative_ms, ms.amax(dim=1))
    saved_ms = (alternative_ms[:, None] - ms).clamp(min=0.0)
    # The greedy order of a knapsack, by the time saved per byte: a unit far down the order finds
    # the limited device full. Stable, so ties do not depend on the platform.
    order = (saved_ms / unit_bytes.clamp(min=TINY)[:, None]).argsort(
        dim=0, descending=True, stable=True
    )
    sorted_bytes = unit_bytes[order]
    bytes_before = sorted_bytes.cumsum(dim=0) - sorted_bytes
    share = 1.0 - torch.arange(len(ms), dtype=ms.dtype, device=ms.device)[:, None] / len(ms)
    bytes_ahead = torch.empty_like(ms).scatter_(0, order, bytes_before)
    return bytes_ahead, torch.empty_like(ms).scatter_(0, order, share.expand_as(ms))


def sum_transfers(graphs: GraphBatch, graph: int, links: Tensor) -> tuple[Tensor, Tensor]:
    """(n, D) mean times to send a unit's outputs from each device and to bring its inputs there."""
    tables, nodes = graphs.device_tables, graphs.nodes_of(graph)
    in_graph = graphs.batch[graphs.edge_index[0]] == graph
    source, target = graphs.edge_index[:, in_graph] - graphs.ptr[graph]
    transfers = tables.edge_attr[in_graph, 1:]
    # The mean over possible partners, which are not placed yet. Padding has no links.
    n_others = max(int((links.sum(dim=(1, 2)) > 0).sum()) - 1, 1)
    outward = transfers.new_zeros(nodes.stop - nodes.start, len(links))
    inward = outward.clone()
    outward.index_add_(0, source, transfers @ (links.sum(dim=1) / n_others).T)
    inward.index_add_(0, target, transfers @ (links.sum(dim=0) / n_others).T)
    return outward, inward


@dataclass(frozen=True, eq=False)
class FreeMemory:
    """Bytes of places, which are units or groups of them, and limits of devices, in B rows.

    All are shares of the model's bytes.
    """

    place_bytes: Tensor  # (B, M) float64 bytes of each place
    limits: Tensor  # (B, D) float64, infinite without a limit
    shared: Tensor  # (B, D, D) float64, 1 where two devices share memory
    supported: Tensor  # (B, M, D) bool, devices that run each place

    @classmethod
    def from_batch(cls, graphs: GraphBatch, row: Tensor) -> FreeMemory:
        """The free memory for the padded units of the (B,) graph of each row."""
        tables = graphs.device_tables
        place_bytes = graphs.pad(tables.unit_bytes[:, None])[..., 0]
        limit, has_limit = tables.devices[..., 0].double(), tables.devices[..., 1] > 0
        limits = torch.where(has_limit, limit - ROUNDING, torch.inf)
        # Devices of one pool share its limit; those of pool 0 share with themselves alone.
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
        """(B, D) bool, devices with room for one place, or the (B,) place of each row.

        ``used``: (B, D) bytes of the places before it on each device.
        """
        rows = torch.arange(len(used), device=used.device)
        left = self.limits - (used[:, None] @ self.shared)[:, 0]
        own_bytes = self.place_bytes[rows, place][:, None]
        return mask_places(self.supported[rows, place], left - own_bytes)

    def masks(self, devices: Tensor) -> Tensor:
        """(B, M, D) bool, devices with room for each place, given (B, M) devices of all places."""
        own_bytes = self.place_bytes[..., None]
        bytes_on_device = one_hot(devices.long(), self.limits.shape[1]) * own_bytes
        # Each place sees the bytes of those before it.
        bytes_before = bytes_on_device.cumsum(dim=1) - bytes_on_device
        left = self.limits[:, None] - bytes_before @ self.shared
        return mask_places(self.supported, left - own_bytes)

    def count_used(self, devices: Tensor, is_placed: Tensor) -> Tensor:
        """(B, D) bytes of the places that (B, M) ``is_placed`` marks, on (B, M) devices."""
        zeros = torch.zeros_like(self.limits)
        return zeros.scatter_add(1, devices.long(), self.place_bytes * is_placed)

    def add(self, used: Tensor, place: int, devices: Tensor) -> Tensor:
        """(B, D) used bytes after a place was put on (B,) devices."""
        return used.scatter_add(1, devices[:, None], self.place_bytes[:, place, None])


def mask_places(supported: Tensor, free_bytes: Tensor) -> Tensor:
    """``find_fitting_devices`` of tensors."""
    mask = find_fitting_devices(supported.cpu().numpy(), free_bytes.cpu().numpy())
    return torch.from_numpy(mask).to(free_bytes.device)
