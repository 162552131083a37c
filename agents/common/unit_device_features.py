"""Features of units on devices that policies see: times, transfers and memory on one scale.

The numbers have no unit and are in [0, 1], so that weights fit any model and any devices.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn

from agents.common.graphs import MAX_ENTRIES, MIN_COST, GraphBatch

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


@lru_cache(maxsize=MAX_ENTRIES)
def describe_units_on_devices(graphs: GraphBatch) -> Tensor:
    """(n, D, F) float32 features of the nodes on each device.

    Raises:
        UserError: Devices are not observed.
    """
    _ = graphs.device_tables
    return torch.cat([describe_graph(graphs, graph) for graph in range(len(graphs.ids))])


def describe_graph(graphs: GraphBatch, graph: int) -> Tensor:
    """(n, D, F) features of one graph."""
    tables, nodes = graphs.device_tables, graphs.nodes_of(graph)
    ms, held = tables.unit_ms[nodes], tables.unit_bytes[nodes].float()
    devices, links = tables.devices[graph], tables.links[graph]
    supported = torch.ones_like(ms, dtype=torch.bool)
    if graphs.action_mask is not None:
        supported = graphs.action_mask[nodes]
    limits, limited = devices[:, 0], devices[:, 1] > 0
    n, n_devices = ms.shape
    # unsupported devices have a time, too, but are neither the fastest nor an alternative
    fastest = ms.masked_fill(~supported, torch.inf).amin(dim=1, keepdim=True)
    ahead, below = rank_gains(ms, held, supported & ~limited)
    outward, inward = sum_transfers(graphs, graph, links)
    columns = (
        squash((ms - fastest).clamp(min=0.0)),
        squash(ms),
        (ms <= fastest) & supported,
        squash(outward),
        squash(inward),
        (held[:, None] / limits.clamp(min=TINY)).clamp(max=1.0),
        squash(held * n)[:, None],
        squash(ahead / limits.clamp(min=TINY)),
        below,
        supported,
        limited,
        limits,
        (limits.sum() / 2.0).clamp(max=1.0),
        squash(devices[:, 3]),
    )
    full = [column.to(ms.dtype).expand(n, n_devices) for column in columns]
    return torch.stack(full, dim=-1)


def squash(value: Tensor) -> Tensor:
    """Map numbers from 0 to infinity to [0, 1)."""
    return 1.0 - 1.0 / (1.0 + value)


def rank_gains(ms: Tensor, held: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Rank units on each device by the time that it saves per byte, as a knapsack is filled.

    Time is saved against the fastest device without a limit, or the slowest if all have one.

    Args:
        ms: (n, D) times.
        held: (n,) bytes.
        free: (n, D) bool, devices without a limit that run the unit.

    Returns:
        (n, D) bytes of the units that save more, and the share of those that save less.
    """
    otherwise = ms.masked_fill(~free, torch.inf).amin(dim=1)
    otherwise = torch.where(otherwise.isfinite(), otherwise, ms.amax(dim=1))
    saved = (otherwise[:, None] - ms).clamp(min=0.0)
    order = (saved / held.clamp(min=TINY)[:, None]).argsort(dim=0, descending=True, stable=True)
    ordered = held[order]
    before = ordered.cumsum(dim=0) - ordered
    share = 1.0 - torch.arange(len(ms), dtype=ms.dtype, device=ms.device)[:, None] / len(ms)
    ahead, below = torch.empty_like(ms), torch.empty_like(ms)
    return ahead.scatter_(0, order, before), below.scatter_(0, order, share.expand_as(ms))


def sum_transfers(graphs: GraphBatch, graph: int, links: Tensor) -> tuple[Tensor, Tensor]:
    """(n, D) mean time to send a unit's outputs from each device, and to bring its inputs there.

    Args:
        graphs: The batch.
        graph: Index of the graph.
        links: (D, D, 2) of the graph.
    """
    tables, nodes = graphs.device_tables, graphs.nodes_of(graph)
    mine = graphs.batch[graphs.edge_index[0]] == graph
    source, target = graphs.edge_index[:, mine] - graphs.ptr[graph]
    moved = tables.edge_attr[mine, 1:]
    others = max(int((links.sum(dim=(1, 2)) > 0).sum()) - 1, 1)
    outward = moved.new_zeros(nodes.stop - nodes.start, len(links))
    inward = outward.clone()
    outward.index_add_(0, source, moved @ (links.sum(dim=1) / others).T)
    inward.index_add_(0, target, moved @ (links.sum(dim=0) / others).T)
    return outward, inward


class DevicePreferences(nn.Module):
    """Preferences of units for devices, with weights that fit any of both.

    It begins with the faster device by ``cost_weight`` times the logarithm of the times, and learns
    from there.

    Args:
        cost_weight: Of the logarithm of times; 0 begins without a preference.
        hidden: Width of the hidden layer.
    """

    def __init__(self, cost_weight: float, hidden: int = 32) -> None:
        super().__init__()
        self.cost_weight = nn.Parameter(torch.tensor(cost_weight))
        out = nn.Linear(hidden, 1, bias=False)
        nn.init.zeros_(out.weight)
        self.layers = nn.Sequential(nn.Linear(len(COLUMNS), hidden), nn.Tanh(), out)

    def forward(self, features: Tensor, unit_ms: Tensor) -> Tensor:
        """(..., D) logits of features (..., D, F) and times (..., D)."""
        learned: Tensor = self.layers(features)[..., 0]
        return learned - self.cost_weight * (unit_ms + MIN_COST).log()
