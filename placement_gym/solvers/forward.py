"""The graph whose order contiguous splits respect: that of the forward pass."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.graph.operators import BACKWARD, distinct_edges
from placement_gym.graph.units import Units


@dataclass(frozen=True, eq=False)
class Forward:
    """An acyclic graph whose nodes are units, or units that depend on each other in a cycle.

    Edges are those of the forward pass. A unit of backward operators only has the edges of these,
    reversed (Tarnawski et al. 2020, appendix).

    Attributes:
        node: (n_units,) node of each unit, numbered by their first units.
        edge_index: (2, n_edges) between nodes, without loops.
    """

    node: IntArray
    edge_index: IntArray

    @classmethod
    def of(cls, units: Units) -> Forward:
        """The forward graph of units; their whole graph where no operator is a backward one."""
        graph, unit = units.graph, units.of_operator
        source, target = graph.edge_index
        backward = np.array([kind == BACKWARD for kind in graph.types])
        orphan = np.bincount(unit[~backward], minlength=len(units)) == 0
        forward = ~backward[source] & ~backward[target]
        mirrored = backward[source] & backward[target]
        mirrored &= orphan[unit[source]] | orphan[unit[target]]
        edges = np.concatenate(
            [
                unit[graph.edge_index[:, forward]],
                unit[graph.edge_index[::-1, mirrored]],
            ],
            axis=1,
        )
        whole = nx.DiGraph()
        whole.add_nodes_from(range(len(units)))
        whole.add_edges_from(edges.T.tolist())
        whole.remove_edges_from(list(nx.selfloop_edges(whole)))
        merged = nx.condensation(whole).graph["mapping"]
        return cls.contract(np.array([merged[unit] for unit in range(len(units))]), edges)

    @classmethod
    def contract(cls, part: IntArray, edges: IntArray) -> Forward:
        """Make nodes of parts.

        Args:
            part: (n_units,) part of each unit.
            edges: (2, n_edges) between units.
        """
        _, first, dense = np.unique(part, return_index=True, return_inverse=True)
        node = np.argsort(np.argsort(first))[dense]
        return cls(node, distinct_edges(node[edges]))

    def __len__(self) -> int:
        return int(self.node.max()) + 1

    def depth_first(self, from_ends: bool = False) -> IntArray:
        """(n,) nodes in a depth-first topological order.

        Args:
            from_ends: Search against the edges, later nodes first, as the publication's greedy
                placer does.
        """
        step = -1 if from_ends else 1
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(self))[::step])
        graph.add_edges_from(sorted(self.edge_index[::step].T.tolist(), reverse=from_ends))
        return np.array(list(nx.dfs_postorder_nodes(graph))[::-step], dtype=np.int64)

    def order_units(self, order: IntArray) -> IntArray:
        """(n_units,) units sorted by an order of nodes."""
        position = np.argsort(order)
        return np.argsort(position[self.node], kind="stable")
