"""The graph whose order contiguous splits respect, that of the forward pass, and its leaves.

Leaves that take no time join their only neighbour, which leaves far fewer ideals.
"""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.graph import BACKWARD, Units, distinct_edges
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import Tasks


@dataclass(frozen=True, eq=False)
class Forward:
    """An acyclic graph whose nodes are units, or units that depend on each other in a cycle.

    Edges are those of the forward pass. A unit of only backward operators has their edges, reversed
    (Tarnawski et al. 2020, appendix).
    """

    node: IntArray  # (n_units,) node of each unit, numbered by their first units
    edge_index: IntArray  # (2, n_edges) between nodes, without loops

    @classmethod
    def from_units(cls, units: Units) -> Forward:
        """The forward graph of units; their whole graph if no operator is a backward one."""
        graph, unit = units.graph, units.of_operator
        source, target = graph.edge_index
        backward = np.array([kind == BACKWARD for kind in graph.types])
        orphan = np.bincount(unit[~backward], minlength=len(units)) == 0
        forward = ~backward[source] & ~backward[target]
        mirrored = backward[source] & backward[target]
        mirrored &= orphan[unit[source]] | orphan[unit[target]]
        edges = np.concatenate(
            [unit[graph.edge_index[:, forward]], unit[graph.edge_index[::-1, mirrored]]], axis=1
        )
        whole = nx.DiGraph()
        whole.add_nodes_from(range(len(units)))
        whole.add_edges_from(edges.T.tolist())
        whole.remove_edges_from(list(nx.selfloop_edges(whole)))
        merged = nx.condensation(whole).graph["mapping"]
        return cls.contract(np.array([merged[unit] for unit in range(len(units))]), edges)

    @classmethod
    def contract(cls, part: IntArray, edges: IntArray) -> Forward:
        """Make nodes of (n_units,) ``part``, and edges of (2, n_edges) ``edges`` between units."""
        _, first, dense = np.unique(part, return_index=True, return_inverse=True)
        node = np.argsort(np.argsort(first))[dense]
        return cls(node, distinct_edges(node[edges]))

    def __len__(self) -> int:
        return int(self.node.max()) + 1

    def depth_first(self) -> IntArray:
        """(n,) nodes in a depth-first topological order."""
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(self)))
        graph.add_edges_from(sorted(self.edge_index.T.tolist()))
        return np.array(list(nx.dfs_postorder_nodes(graph))[::-1], dtype=np.int64)


def merge_leaves(forward: Forward, problem: Problem, costs: CostTable) -> tuple[Forward, BoolArray]:
    """Repeatedly merge each node without work into its only neighbour.

    Without memory limits that is exact: a contiguous split remains one when such a node moves to
    its neighbour's device; no time is added, and transfers can only disappear. The neighbour must
    touch every tensor that the node touches, and its devices must support the node. The
    publication's program does the same (``performTrivialNodeOptimizations``). Returns the smaller
    graph, and (n_units,) bool, the units that have joined others.
    """
    n = len(forward)
    # whether a node takes time anywhere, and which devices support it
    works = (costs.unit_ms(problem.units) > 0) & problem.supported
    idle = ~any_unit(works, forward.node, n).max(axis=1)
    support = ~any_unit(~problem.supported, forward.node, n)
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(forward.edge_index.T.tolist())
    # nodes that touch each tensor, and tensors that each node and others touch
    holders = [set(nodes) for nodes in find_endpoint_times(problem, costs, forward.node)]
    touched: list[set[int]] = [set() for _ in range(n)]
    for tensor, nodes in enumerate(holders):
        for node in nodes:
            touched[node].add(tensor)

    into, waiting = np.arange(n), list(range(n))
    while waiting:
        leaf = waiting.pop()
        if not idle[leaf] or len(graph[leaf]) != 1:
            continue
        (host,) = graph[leaf]
        if touched[leaf] <= touched[host] and (support[leaf] >= support[host]).all():
            graph.remove_edge(leaf, host)
            # tensors that only the host still touches no longer count
            for tensor in touched[leaf]:
                holders[tensor].remove(leaf)
                if len(holders[tensor]) == 1:
                    touched[host].remove(tensor)
            into[leaf] = host
            waiting.append(host)

    joined = np.isin(forward.node, np.flatnonzero(into != np.arange(n)))
    while (into != into[into]).any():
        into = into[into]
    first_unit = np.unique(forward.node, return_index=True)[1]
    return Forward.contract(into[forward.node], first_unit[forward.edge_index]), joined


def any_unit(values: BoolArray, node: IntArray, n: int) -> BoolArray:
    """(n, n_devices) whether any unit of a node has a true value."""
    result = np.zeros((n, values.shape[1]), dtype=np.bool_)
    np.logical_or.at(result, node, values)
    return result


def find_endpoint_times(
    problem: Problem, costs: CostTable, node: IntArray
) -> dict[frozenset[int], FloatArray]:
    """Find the touch sets of several nodes, one per unit, whose tensors cost time.

    The values are (n_devices,), the time when all their tensors leave or enter a device.
    """
    tasks = Tasks.from_units(problem.units, costs)
    tensor, _, reader = tasks.readings
    sets = [{source} for source in node[tasks.tensors.source].tolist()]
    for t, target in zip(tensor.tolist(), node[reader].tolist(), strict=True):
        sets[t].add(target)
    total: dict[frozenset[int], FloatArray] = {}
    for nodes, ms in zip(map(frozenset, sets), costs.boundary_ms[tasks.tensor], strict=True):
        if len(nodes) > 1 and ms.any():
            total[nodes] = total.get(nodes, 0.0) + ms
    return total
