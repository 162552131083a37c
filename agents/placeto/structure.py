"""The static inputs of Placeto's networks, computed once per graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.common.graphs import GraphBatch
from agents.common.pairs import describe_pairs
from agents.common.room import Room
from placement_gym.base.arrays import IntArray
from placement_gym.envs.observation import FEATURES

RELATIONS = 3
EPSILON = 1e-6


@dataclass(frozen=True, eq=False)
class Structure:
    """Arrays of one graph.

    Attributes:
        static: (n, S) times on each device, divided by the largest of all, and the work features,
            each divided by its largest value.
        messages: (2n, 2n) sparse; the first n rows sum over producers, the others over consumers.
        has_neighbours: (2n, 1) 1 for rows of ``messages`` that are not empty.
        related: (3, n, n) 1 where the column's unit is an ancestor of, a descendant of, or parallel
            to the row's unit.
        allowed: (n, D) bool, allowed devices of each unit; None if unknown.
        room: Memory of the units and of the devices, one row; None if it is not kept.
    """

    static: Tensor
    messages: Tensor
    has_neighbours: Tensor
    related: Tensor
    allowed: Tensor | None
    room: Room | None = None

    @classmethod
    def of(
        cls,
        graphs: GraphBatch,
        graph: int,
        n_devices: int,
        devices: bool = False,
        room: bool = False,
    ) -> Structure:
        """Compute the arrays for one graph of a batch.

        Args:
            graphs: The batch.
            graph: Index of the graph.
            n_devices: Number of devices.
            devices: Whether ``static`` has the features of ``agents.common.pairs``, too.
            room: Whether memory is kept.
        """
        nodes, edges = graphs.nodes_of(graph), graphs.edges_of(graph)
        n = nodes.stop - nodes.start
        x, cost = graphs.x[nodes], FEATURES["cost"].start
        times, work = x[:, cost : cost + n_devices], x[:, FEATURES["work"]]
        times = times / times.max().clamp(min=EPSILON)  # together, so that devices can be compared
        work = work / work.amax(dim=0).clamp(min=EPSILON)
        static = [times, work]
        if devices:
            static.append(describe_pairs(graphs)[nodes].flatten(1))
        both = torch.cat([edges.flip(0), edges + n], dim=1)
        ones = torch.ones(both.shape[1], device=both.device)
        size = (2 * n, 2 * n)
        messages = torch.sparse_coo_tensor(both, ones, size, check_invariants=True).coalesce()
        count = torch.zeros(2 * n, device=both.device).index_add(0, both[0], ones)
        return cls(
            static=torch.cat(static, dim=1),
            messages=messages,
            has_neighbours=(count > 0).float()[:, None],
            related=torch.as_tensor(find_relations(edges.cpu().numpy(), n), device=both.device),
            allowed=None if graphs.action_mask is None else graphs.action_mask[nodes],
            room=find_room(graphs, graph) if room else None,
        )


def find_room(graphs: GraphBatch, graph: int) -> Room:
    """Bytes of the units and limits of the devices of one graph, one row."""
    tables = graphs.device_tables
    one = torch.tensor([graph], device=tables.limits.device)
    held = tables.unit_bytes[graphs.nodes_of(graph)][None]
    return Room(held, tables.limits[one], tables.memory_pool[one])


def find_relations(edges: IntArray, n: int) -> NDArray[np.float32]:
    """(3, n, n) whether the column's unit is an ancestor, a descendant or parallel to the row's.

    Args:
        edges: (2, e) edges between units in topological order.
        n: Number of units.
    """
    ancestors = np.zeros((n, n), dtype=bool)
    for source, target in edges[:, np.argsort(edges[1], kind="stable")].T:
        ancestors[target] |= ancestors[source]
        ancestors[target, source] = True
    parallel = ~(ancestors | ancestors.T | np.eye(n, dtype=bool))
    return np.stack([ancestors, ancestors.T, parallel]).astype(np.float32)
