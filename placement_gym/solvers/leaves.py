"""Leaves that take no time join their only neighbour, which leaves far fewer ideals."""

from __future__ import annotations

import numpy as np

from placement_gym.arrays import BoolArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.solvers.forward import Forward
from placement_gym.solvers.touches import find_touch_sets


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
    idle, support = describe_nodes(forward, problem, costs)
    holders = [set(nodes) for nodes in find_touch_sets(problem, costs, forward.node)]
    touched: list[set[int]] = [set() for _ in range(n)]
    for t, nodes in enumerate(holders):
        for node in nodes:
            touched[node].add(t)
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for source, target in forward.edge_index.T.tolist():
        neighbours[source].add(target)
        neighbours[target].add(source)
    into = np.arange(n)
    waiting = list(range(n))
    while waiting:
        leaf = waiting.pop()
        if not idle[leaf] or len(neighbours[leaf]) != 1:
            continue
        (host,) = neighbours[leaf]
        if touched[leaf] <= touched[host] and (support[leaf] >= support[host]).all():
            into[leaf] = host
            for t in touched[leaf]:
                holders[t].remove(leaf)
            touched[host] -= {t for t in touched[leaf] if len(holders[t]) == 1}
            neighbours[host].remove(leaf)
            neighbours[leaf].clear()
            waiting.append(host)
    joined = np.flatnonzero(into != np.arange(n))
    while (into != into[into]).any():
        into = into[into]
    edges = first_units(forward)[forward.edge_index]
    return Forward.contract(into[forward.node], edges), np.isin(forward.node, joined)


def first_units(forward: Forward) -> IntArray:
    """(n,) the first unit of each node."""
    return np.unique(forward.node, return_index=True)[1]


def describe_nodes(
    forward: Forward, problem: Problem, costs: CostTable
) -> tuple[BoolArray, BoolArray]:
    """(n,) whether a node takes no time anywhere; (n, n_devices) whether a device supports it."""
    idle = np.ones(len(forward), dtype=np.bool_)
    support = np.ones((len(forward), len(problem.devices)), dtype=np.bool_)
    works = (costs.unit_ms(problem.units) > 0) & problem.supported
    np.logical_and.at(idle, forward.node, ~works.any(axis=1))
    np.logical_and.at(support, forward.node, problem.supported)
    return idle, support
