"""Leaves that take no time join their only neighbour, which leaves far fewer ideals."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import BoolArray, IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.forward import Forward
from placement_gym.solvers.pipelines.tensor_endpoints import find_endpoint_times


def merge_leaves(forward: Forward, problem: Problem, costs: CostTable) -> tuple[Forward, BoolArray]:
    """Merge each node without work into its only neighbour, again and again.

    Without memory limits that is exact: a contiguous split remains one when such a node moves to
    its neighbour's device; no time is added, and a transfer can only disappear. For that the
    neighbour must touch every tensor that the node touches, and all its devices must support the
    node. The publication's program does the same (``performTrivialNodeOptimizations``).

    Returns:
        A graph of fewer nodes; (n_units,) bool, the units that have joined others.
    """
    n = len(forward)
    graph = Shrinking(forward, problem, costs)
    into = np.arange(n)
    waiting = list(range(n))
    while waiting:
        leaf = waiting.pop()
        host = graph.find_host(leaf)
        if host is not None:
            graph.join(leaf, host)
            into[leaf] = host
            waiting.append(host)
    joined = np.isin(forward.node, np.flatnonzero(into != np.arange(n)))
    while (into != into[into]).any():
        into = into[into]
    first_unit = np.unique(forward.node, return_index=True)[1]
    return Forward.contract(into[forward.node], first_unit[forward.edge_index]), joined


class Shrinking:
    """A graph that loses leaves.

    Attributes:
        idle: (n,) bool, whether a node takes no time anywhere.
        support: (n, n_devices) bool, whether a device supports it.
        neighbours: Nodes before and behind each node.
        holders: Nodes that touch each tensor.
        touched: Tensors that each node and others touch.
    """

    def __init__(self, forward: Forward, problem: Problem, costs: CostTable) -> None:
        n = len(forward)
        works = (costs.unit_ms(problem.units) > 0) & problem.supported
        self.idle: BoolArray = ~any_unit(works, forward.node, n).max(axis=1)
        self.support = ~any_unit(~problem.supported, forward.node, n)
        self.neighbours: list[set[int]] = [set() for _ in range(n)]
        for source, target in forward.edge_index.T.tolist():
            self.neighbours[source].add(target)
            self.neighbours[target].add(source)
        self.holders = [set(nodes) for nodes in find_endpoint_times(problem, costs, forward.node)]
        self.touched: list[set[int]] = [set() for _ in range(n)]
        for tensor, nodes in enumerate(self.holders):
            for node in nodes:
                self.touched[node].add(tensor)

    def find_host(self, leaf: int) -> int | None:
        """The neighbour that a node can join without loss; None if there is none."""
        if not self.idle[leaf] or len(self.neighbours[leaf]) != 1:
            return None
        (host,) = self.neighbours[leaf]
        supported = (self.support[leaf] >= self.support[host]).all()
        return host if supported and self.touched[leaf] <= self.touched[host] else None

    def join(self, leaf: int, host: int) -> None:
        """Remove a leaf; tensors that only its host still touches no longer count."""
        self.neighbours[host].remove(leaf)
        self.neighbours[leaf].clear()
        for tensor in self.touched[leaf]:
            self.holders[tensor].remove(leaf)
            if len(self.holders[tensor]) == 1:
                self.touched[host].remove(tensor)


def any_unit(values: BoolArray, node: IntArray, n: int) -> BoolArray:
    """(n, n_devices) whether any unit of a node has a true value."""
    result = np.zeros((n, values.shape[1]), dtype=np.bool_)
    np.logical_or.at(result, node, values)
    return result
