"""Networks of drawn groups: logits of following and of devices, and tables of single graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.common import (
    COLUMNS,
    MAX_ENTRIES,
    MIN_COST,
    Encoder,
    GraphBatch,
    describe_units_on_devices,
    first_keep,
    make_perceptron,
    scatter,
)
from placement_gym.envs import FEATURES

FOLLOWING_STEP = 0.5
"""Learning rate of the logits of following relative to those of devices. Hand-tuned: the best on
the validation problems."""
TABLE_STEP = 100.0
"""Steps of tables, relative to those of weights."""


@dataclass(frozen=True)
class GraphGroupsOptions:
    """Options of ``GraphGroupsPolicy``, given as ``policy_kwargs``; saved models name them.

    Attributes:
        hidden: Width of an embedding.
        layers: Number of graph convolutions; 0 ignores the edges.
        cost_weight: Initial weight of the logarithm of a unit's time on a device in the logits.
        groups: Groups of the first placements, about.
        table: Whether the logits of each graph in ``graphs`` have a table as a further term: the
            networks hold for all graphs, the tables for one each.
        devices: Whether limits, transfers and times on one scale are read, too, as a policy for
            several problems needs; see ``agents.common.devices``.
    """

    hidden: int = 128
    layers: int = 2
    cost_weight: float = 2.0
    groups: int = 30
    table: bool = True
    devices: bool = False


class Networks(nn.Module):
    """Encoder, scorer of following, placer, and a critic for algorithms that need one."""

    def __init__(self, options: GraphGroupsOptions, n_devices: int, critic: bool) -> None:
        super().__init__()
        hidden, self.groups = options.hidden, options.groups
        self.sees_devices = options.devices
        further = len(COLUMNS) * n_devices * options.devices
        self.encoder = Encoder(hidden=hidden, layers=options.layers, further=further)
        self.scorer = make_perceptron(hidden, hidden, 1)
        self.placer = make_perceptron(hidden, hidden, n_devices)
        self.critic = make_perceptron(hidden, hidden, 1) if critic else None
        first = FEATURES["cost"].start
        self.costs = slice(first, first + n_devices)
        weight = nn.Parameter(torch.tensor(float(options.cost_weight)))
        self.cost_weight = weight if options.cost_weight else None

    def forward(self, graphs: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
        """(G, N, D) logits of own choices, (G, N) of following, and (G, 1) values."""
        seen = describe_units_on_devices(graphs).flatten(1) if self.sees_devices else None
        z: Tensor = self.encoder(graphs, further=seen)
        z = functional.layer_norm(z, z.shape[1:])
        own = self.placer(z)
        if self.cost_weight is not None:
            own = own - self.cost_weight * (graphs.x[:, self.costs] + MIN_COST).log()
        n_units = graphs.node_mask.sum(dim=1)[graphs.batch]
        follows = self.scorer(z[find_leaders(graphs)] * z)[:, 0]
        keep = first_keep(n_units, self.groups) + follows
        pooled = scatter(z, graphs.batch, reduce="mean")
        values = pooled.new_zeros(len(pooled), 1) if self.critic is None else self.critic(pooled)
        return graphs.pad(own), graphs.pad(keep[:, None])[..., 0], values


@lru_cache(maxsize=MAX_ENTRIES)
def find_leaders(graphs: GraphBatch) -> Tensor:
    """(n,) the last of each node's producers before it; itself if there is none."""
    source, target = graphs.edge_index
    # Edges against the order exist where units of a cyclic quotient are numbered by their first
    # operator; a leader must come before its followers.
    is_forward = source < target
    nodes = torch.arange(len(graphs.x), device=source.device)
    latest = torch.full_like(nodes, -1)
    latest.scatter_reduce_(0, target[is_forward], source[is_forward], "amax")
    return torch.where(latest < 0, nodes, latest)


@lru_cache(maxsize=MAX_ENTRIES)
def find_leader_slots(graphs: GraphBatch) -> Tensor:
    """(G, N) ``find_leaders`` of padded units; padding leads itself."""
    slots = torch.arange(graphs.node_mask.shape[1], device=graphs.x.device)
    leader = slots.repeat(len(graphs.node_mask), 1)
    leader[graphs.node_mask] = find_leaders(graphs) - graphs.ptr[graphs.batch]
    return leader


class RunTable(nn.Module):
    """Values of units, each the sum of those of all runs that the unit is in.

    Runs are of 1, 2, 4, ... units in topological order, and the same shifted by half a run. The
    gradient moves many units at once by the values of long runs, and single ones by those of short
    runs. All values are zero at first.

    Args:
        n_units: Number of units, padding included.
        width: Values of a unit.
        step: Factor of the learning rate.
    """

    index: Tensor

    def __init__(self, n_units: int, width: int, step: float = 1.0) -> None:
        super().__init__()
        self.step = step
        units, n_values, size = torch.arange(n_units), 0, 1
        levels: list[Tensor] = []
        while size < 2 * n_units or not levels:
            # Shifted runs, too, or no run would span a border between two long ones.
            for shift in (0, size // 2) if 1 < size < n_units else (0,):
                run = (units + shift) // size
                levels.append(run + n_values)
                n_values += int(run[-1]) + 1
            size *= 2
        self.register_buffer("index", torch.stack(levels), persistent=False)
        self.values = nn.Parameter(torch.zeros(n_values, width))

    def forward(self) -> Tensor:
        """(n_units, width) values."""
        return self.step * self.values[self.index].sum(dim=0)


class Tables(nn.ModuleDict):
    """Terms of the logits of known graphs, at every resolution, see ``RunTable``; zero at first.

    Args:
        graphs: ``graph_id`` of each graph that gets tables.
        n_units: Number of units, padding included.
        n_devices: Number of devices.
    """

    def __init__(self, graphs: Iterable[int], n_units: int, n_devices: int) -> None:
        super().__init__()
        for graph_id in graphs:
            own = RunTable(n_units, n_devices, TABLE_STEP)
            keep = RunTable(n_units, 1, TABLE_STEP * FOLLOWING_STEP)
            self[str(graph_id)] = nn.ModuleDict({"own": own, "keep": keep})

    def correct(self, logits: Tensor, ids: Sequence[int], name: str = "own") -> Tensor:
        """(G, N, F) logits of G graphs with the terms of those that have tables.

        Args:
            logits: (G, N, F), without them.
            ids: ``graph_id`` of each graph.
            name: ``"own"``, of devices, or ``"keep"``, of following.
        """
        if not len(self):
            return logits
        each = [
            logit + self.get_submodule(f"{graph_id}.{name}")() if str(graph_id) in self else logit
            for graph_id, logit in zip(ids, logits, strict=True)
        ]
        return torch.stack(each)
