"""Layout of a graph in layers with few crossings, for pictures and pages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.graph import OpGraph, earliest_levels

MAX_BENDS = 20_000
"""Number of bends above which a graph's edges run straight."""
N_SWEEPS = 8
"""Sweeps along the graph and back. Hand-tuned."""
N_SMOOTHING_SWEEPS = 4
"""Last sweeps, which consider both sides of a layer. Hand-tuned."""


@dataclass(frozen=True)
class Layout:
    """Layers from left to right, and positions within each layer.

    Attributes:
        layer: (n_units,) layers, which rise along every edge.
        position: (n_units,) positions within the layers, at least 1 apart.
        bends: Positions of each edge in the layers between its ends; empty if straight.
    """

    layer: IntArray
    position: FloatArray
    bends: list[list[float]]


def lay_out(graph: OpGraph) -> Layout:
    """Lay a graph out: layers by longest path, positions by repeated averages of neighbours.

    Points where edges pass a layer take room as units do, so edges run around units.
    """
    layer = assign_layers(graph)
    source, target = graph.edge_index
    between = layer[target] - layer[source] - 1
    if between.sum() > MAX_BENDS:
        between = np.zeros_like(between)
    n, n_bends = len(graph), int(between.sum())
    first = n + np.cumsum(between) - between
    layers = np.concatenate([layer, np.zeros(n_bends, dtype=np.int64)])
    starts, ends = [], []
    for edge in range(graph.n_edges):
        points = range(int(first[edge]), int(first[edge] + between[edge]))
        chain = [int(source[edge]), *points, int(target[edge])]
        layers[points.start : points.stop] = layer[source[edge]] + 1 + np.arange(len(points))
        starts += chain[:-1]
        ends += chain[1:]
    links = np.array([starts, ends], dtype=np.int64).reshape(2, -1)
    position = order_layers(layers, links)
    bends = [
        position[begin : begin + count].round(2).tolist()
        for begin, count in zip(first.tolist(), between.tolist(), strict=True)
    ]
    return Layout(layer, position[:n], bends)


def assign_layers(graph: OpGraph) -> IntArray:
    """(n,) longest path to each unit; units without producers are next to their first reader."""
    result = earliest_levels(graph.edge_index, np.arange(len(graph)))
    nearest = np.full(len(graph), result.max(initial=0) + 1)
    np.minimum.at(nearest, graph.edge_index[0], result[graph.edge_index[1]])
    moves = (graph.in_degree() == 0) & (graph.out_degree() > 0)
    return np.where(moves, nearest - 1, result)


def order_layers(layer: IntArray, links: IntArray) -> FloatArray:
    """(n,) positions within layers that draw the ends of (2, n_links) links together.

    Sweeps along the graph and back move each point to the mean of its neighbours on one side, as
    in the method of Sugiyama et al. (1981); the last ones to the mean of both sides.
    """
    n_layers = int(layer.max(initial=0)) + 1
    points = np.split(np.argsort(layer, kind="stable"), np.cumsum(np.bincount(layer))[:-1])
    local = np.empty(len(layer), dtype=np.int64)
    for here in points:
        local[here] = np.arange(len(here))
    position = local - (np.bincount(layer)[layer] - 1) / 2
    source, target = links
    before, after = by_layer(layer, target, source), by_layer(layer, source, target)
    both = by_layer(layer, np.concatenate([target, source]), np.concatenate([source, target]))
    sweeps = [(before, 1), (after, -1)] * N_SWEEPS + [(both, 1), (both, -1)] * (
        N_SMOOTHING_SWEEPS // 2
    )
    for pulls, step in sweeps:
        for index in range(n_layers)[::step]:
            here, (near, far) = points[index], pulls[index]
            count = np.bincount(local[near], minlength=len(here))
            total = np.bincount(local[near], position[far], len(here))
            wish = np.where(count > 0, total / np.maximum(count, 1), position[here])
            position[here] = keep_apart(wish)
    return position


def by_layer(layer: IntArray, near: IntArray, far: IntArray) -> list[tuple[IntArray, IntArray]]:
    """The near and far ends of the links, split by the layer of the near end."""
    order = np.argsort(layer[near], kind="stable")
    ends = np.cumsum(np.bincount(layer[near], minlength=int(layer.max(initial=0)) + 1))[:-1]
    return list(zip(np.split(near[order], ends), np.split(far[order], ends), strict=True))


def keep_apart(wish: FloatArray) -> FloatArray:
    """Positions of a layer near the wished ones, in their order and at least 1 apart."""
    order = np.argsort(wish, kind="stable")
    rank = np.arange(len(wish))
    loose = wish[order] - rank
    raised = np.maximum.accumulate(loose)
    lowered = np.minimum.accumulate(loose[::-1])[::-1]
    position = np.empty(len(wish))
    position[order] = (raised + lowered) / 2 + rank
    return position
