"""Arrangement of a graph's units in a picture: layers in rows of a page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.graph import Layout, OpGraph, lay_out

COLUMN_IN, LANE_IN = 0.8, 0.4
"""Distance of layers and of units in a layer, where there is room for it."""
PAGE_IN = (10.4, 7.5)
"""Width and height that a picture should not exceed."""
ROW_GAP = 1.6
"""Distance of two rows, in lanes: ours."""
MAX_ROWS, MAX_FOLDS = 60, 40
"""Rows of layers, and columns of a tall layer, that are tried, at most: ours."""
FEW_LAYERS = 12
"""Graphs of fewer layers may fold tall ones into several columns."""


@dataclass(frozen=True)
class Arrangement:
    """Positions of units and bends of edges, in inches to the right and upwards.

    Attributes:
        points: (n_units, 2) units.
        row: (n_units,) row of each unit; rows run to the right and back.
        bends: For each edge (k, 2) points that it passes.
        bend_rows: For each edge (k,) rows of these points.
        starts: (n_rows, 2) where the rows begin.
        scale: Distances as a share of ``COLUMN_IN`` and ``LANE_IN``.
    """

    points: FloatArray
    row: IntArray
    bends: list[FloatArray]
    bend_rows: list[IntArray]
    starts: FloatArray
    scale: float


def arrange(graph: OpGraph) -> Arrangement:
    """Lay a graph out in the rows, or with the folded layers, that a page shows largest."""
    layout = lay_out(graph)
    n_layers = int(layout.layer.max(initial=0)) + 1
    rows = [
        arrange_rows(graph, layout, per_row)
        for per_row in sorted(
            {-(-n_layers // rows) for rows in range(1, min(n_layers, MAX_ROWS) + 1)}, reverse=True
        )
    ]
    folded = [fold_layers(graph, layout, lanes) for lanes in list_lanes(layout)]
    best = rows[0]
    for arrangement in (*rows[1:], *folded):
        if arrangement.scale > 1.05 * best.scale:
            best = arrangement
    return best


def arrange_rows(graph: OpGraph, layout: Layout, per_row: int) -> Arrangement:
    """Rows of ``per_row`` layers, which run to the right and back."""
    spans = np.array([len(bends) for bends in layout.bends], dtype=np.int64)
    offsets = np.cumsum(spans) - spans
    first = np.repeat(layout.layer[graph.edge_index[0]] + 1 - offsets, spans)
    layer = np.concatenate([layout.layer, first + np.arange(spans.sum())])
    position = np.concatenate([layout.position, *layout.bends])
    row, across = np.divmod(layer, per_row)
    across = np.where(row % 2 == 1, per_row - 1 - across, across)
    n_rows = int(row.max()) + 1
    low, high = np.full(n_rows, np.inf), np.full(n_rows, -np.inf)
    np.minimum.at(low, row, position)
    np.maximum.at(high, row, position)
    lanes = high - low + ROW_GAP
    tops = np.cumsum(lanes) - lanes
    places = np.stack([across, low[row] - position - tops[row]], axis=1)
    points, scale = scale_to_page(places)
    ends = np.cumsum(spans)[:-1]
    n = len(graph)
    starts = [points[:n][layout.layer == index * per_row].mean(axis=0) for index in range(n_rows)]
    return Arrangement(
        points[:n],
        row[:n],
        np.split(points[n:], ends),
        np.split(row[n:], ends),
        np.array(starts),
        scale,
    )


def list_lanes(layout: Layout) -> list[int]:
    """Heights at which to fold the layers of a graph that has few."""
    counts = np.bincount(layout.layer)
    if len(counts) >= FEW_LAYERS:
        return []
    heights = {-(-int(counts.max()) // folds) for folds in range(2, MAX_FOLDS + 1)}
    return sorted(heights, reverse=True)


def fold_layers(graph: OpGraph, layout: Layout, lanes: int) -> Arrangement:
    """One row, whose layers are as many columns of ``lanes`` units as they need."""
    n = len(graph)
    counts = np.bincount(layout.layer)
    columns = -(-counts // lanes)
    order = np.lexsort((layout.position, layout.layer))
    layer = layout.layer[order]
    rank = np.arange(n) - (np.cumsum(counts) - counts)[layer]
    column, lane = np.divmod(rank, lanes)
    filled = np.minimum(counts[layer] - column * lanes, lanes)
    gaps = np.arange(len(counts))  # one column between two layers
    places = np.empty((n, 2))
    places[order, 0] = (np.cumsum(columns) - columns + gaps)[layer] + column
    places[order, 1] = (filled - 1) / 2 - lane
    points, scale = scale_to_page(places)
    none = [np.empty((0, 2)) for _ in range(graph.n_edges)]
    rows = [np.empty(0, dtype=np.int64) for _ in range(graph.n_edges)]
    return Arrangement(points, np.zeros(n, dtype=np.int64), none, rows, points[:1], scale)


def scale_to_page(places: FloatArray) -> tuple[FloatArray, float]:
    """(n, 2) points in inches, and their scale.

    Args:
        places: (n, 2) columns and, upwards, lanes.
    """
    distances = np.array([COLUMN_IN, LANE_IN])
    wide, tall = np.ptp(places, axis=0) * distances
    scale = min(1.0, PAGE_IN[0] / max(wide, COLUMN_IN), PAGE_IN[1] / max(tall, LANE_IN))
    return (places - places[0]) * distances * scale, scale
