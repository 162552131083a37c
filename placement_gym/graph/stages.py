"""Stages of a pipeline: the parts of a placement that a request passes one after another."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from placement_gym.base.arrays import IntArray
from placement_gym.graph.operators import OpGraph, distinct_edges
from placement_gym.graph.submodels import acyclic_submodels, earliest_levels, submodel_devices


def pipeline_stages(graph: OpGraph, devices: IntArray) -> IntArray:
    """Assign operators to stages, each on one device, such that data only moves to later ones.

    A device is one stage where that makes no cycle, whether its operators are connected or not.
    Otherwise the submodels of a device are one stage for each number of device changes before
    them. Constants and Results belong to the stage of their neighbour.

    Args:
        graph: Operators in topological order.
        devices: (n_operators,) device of each operator.

    Returns:
        (n_operators,) stage of each operator, numbered such that producers come first.
    """
    submodels = acyclic_submodels(graph, devices)
    on = submodel_devices(graph, devices, submodels)
    source, target = graph.edge_index
    flow = graph.edge_index[:, ~(graph.follows[source] | graph.follows[target])]
    edges = distinct_edges(submodels[flow])
    if has_cycle(distinct_edges(on[edges]), int(on.max()) + 1):
        level = earliest_levels(edges, np.arange(len(on)))
        _, label = np.unique(np.stack([level, on]), axis=1, return_inverse=True)
    else:
        label = on
    label = label.astype(np.int64).ravel()
    return number_topologically(distinct_edges(label[edges]), label)[submodels]


def count_stages(graph: OpGraph, devices: IntArray, n_devices: int) -> IntArray:
    """(n_devices,) stages of each device, see ``pipeline_stages``."""
    stages = pipeline_stages(graph, devices)
    return np.bincount(submodel_devices(graph, devices, stages), minlength=n_devices)


def has_cycle(edges: IntArray, n: int) -> bool:
    """Return whether a directed graph of ``n`` nodes without self-loops has a cycle."""
    matrix = coo_array((np.ones(edges.shape[1], dtype=np.int8), (edges[0], edges[1])), (n, n))
    return bool(connected_components(matrix, directed=True, connection="strong")[0] < n)


def number_topologically(edges: IntArray, label: IntArray) -> IntArray:
    """(n,) labels renumbered from 0 such that no edge between labels descends.

    Args:
        edges: (2, n_edges) of an acyclic graph of labels.
        label: (n,) labels.
    """
    rank = dict.fromkeys(label.tolist(), 0)
    for _ in rank:
        for source, target in edges.T.tolist():
            rank[target] = max(rank[target], rank[source] + 1)
    order = sorted(rank, key=lambda one: (rank[one], one))
    position = {one: index for index, one in enumerate(order)}
    return np.array([position[one] for one in label.tolist()], dtype=np.int64)
