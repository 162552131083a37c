"""Picture of a placement on its graph."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from placement_gym.base import FloatArray, IntArray, escape_figure_text
from placement_gym.graph import OpGraph
from placement_gym.problem import Problem
from placement_gym.view import Layout, lay_out
from placement_gym.view.figures.labels import add_key, add_names
from placement_gym.view.figures.large_placement import draw_large_placement
from placement_gym.view.figures.style import COLOURS, CROSSING, WITHIN

MAX_EDGES = 2_000
"""Larger graphs are drawn in groups of units."""
MIN_AREA_PT2, MAX_AREA_PT2 = 20.0, 180.0
"""Areas of circles at full scale, in square points. Hand-tuned."""
MIN_LINE_PT, MAX_LINE_PT = 0.5, 3.5
"""Widths of lines, in points. Hand-tuned."""
MANY_EDGES = 200
"""Number of edges above which lines are thinner. Hand-tuned."""
CURVE = np.linspace(0.0, 1.0, 15)
PAGE_WIDTH_IN, MARGIN_IN = 11.0, 0.35


def draw_placement(problem: Problem, assignment: IntArray, title: str) -> Figure:
    """Draw the units of a graph layer by layer, coloured by an (n_units,) assignment to devices.

    A unit's area grows with its work, an edge's width with its bytes; units are named if there is
    room. Long graphs continue in rows that run to the right and back, wide layers in more columns;
    graphs of more than ``MAX_EDGES`` edges are drawn by ``draw_large_placement``.
    """
    if problem.units.quotient.n_edges > MAX_EDGES:
        return draw_large_placement(problem, assignment, title)
    picture = PlacementPicture(problem)
    picture.show(assignment, title)
    picture.axes.title.set_wrap(True)
    return picture.figure


class PlacementPicture:
    """The units of a graph, laid out once in inches, and coloured by placements in turn."""

    def __init__(self, problem: Problem) -> None:
        self.graph = graph = problem.units.quotient
        arrangement, size_bytes = arrange(graph), edge_bytes(graph)
        self.points = arrangement.points
        self.curves = draw_edges(graph, arrangement)
        self.widths = find_widths(size_bytes, arrangement.scale)
        areas = arrangement.scale**2 * np.array([MIN_AREA_PT2, MAX_AREA_PT2])
        share = np.sqrt(graph.flops / max(graph.flops.max(), 1.0))
        self.area = areas[0] + (areas[1] - areas[0]) * share
        self.figure, self.axes = self.make_figure()
        self.lines = LineCollection([], zorder=1)
        self.axes.add_collection(self.lines, autolim=False)
        self.circles = [
            self.axes.scatter([], [], color=COLOURS[index % len(COLOURS)], zorder=2)
            for index in range(len(problem.devices))
        ]
        self.mark_rows(arrangement)
        add_names(self.axes, graph, self.points, self.area, arrangement.scale * COLUMN_IN)
        widest = float(np.max(self.widths, initial=0.0))
        add_key(self.figure, problem, (graph.flops, areas), (size_bytes, widest))

    def make_figure(self) -> tuple[Figure, Axes]:
        extent = np.concatenate([self.points, *self.curves])
        left, bottom = extent.min(axis=0) - MARGIN_IN
        right, top = extent.max(axis=0) + MARGIN_IN
        aside = max(0.0, PAGE_WIDTH_IN - (right - left)) / 2
        figure = Figure(figsize=(PAGE_WIDTH_IN, max(1.9, top - bottom + 0.8)), layout="constrained")
        axes = figure.add_subplot(xlim=(left - aside, right + aside), ylim=(bottom, top))
        axes.set_axis_off()
        return figure, axes

    def mark_rows(self, arrangement: Arrangement) -> None:
        """Mark the beginning and direction of each of several rows by an arrow."""
        for row, start in enumerate(arrangement.starts if len(arrangement.starts) > 1 else ()):
            x = start[0] + (MARGIN_IN if row % 2 else -MARGIN_IN) / 2
            self.axes.plot(x, start[1], "<" if row % 2 else ">", color=CROSSING, ms=4, zorder=3)

    def show(self, assignment: IntArray, title: str) -> None:
        """Colour the units and edges by an (n_units,) assignment, and write its title."""
        self.axes.set_title(escape_figure_text(title), fontsize=10)
        source, target = self.graph.edge_index
        crossing = assignment[source] != assignment[target]
        order = np.argsort(crossing, kind="stable")
        self.lines.set_segments([self.curves[edge] for edge in order.tolist()])
        self.lines.set_color(np.where(crossing[order], CROSSING, WITHIN).tolist())
        self.lines.set_linewidth(self.widths[order].tolist())
        for index, circles in enumerate(self.circles):
            on_device = assignment == index
            circles.set_offsets(self.points[on_device])
            circles.set_sizes(self.area[on_device])


def edge_bytes(graph: OpGraph) -> IntArray:
    """(n_edges,) bytes of the tensors that each edge carries."""
    tensor, reader = graph.tensors.readings()
    edge = graph.find_edges(graph.tensors.source[tensor], reader)
    total = np.bincount(edge, graph.tensors.size_bytes[tensor], graph.n_edges)
    return total.astype(np.int64)


def draw_edges(graph: OpGraph, arrangement: Arrangement) -> list[FloatArray]:
    """(k, 2) points of each edge's line, around the units in between."""
    points, rows, curves = arrangement.points, arrangement.row, []
    for edge, ends in enumerate(graph.edge_index.T.tolist()):
        stops = np.insert(points[ends], 1, arrangement.bends[edge], axis=0)
        passed = np.insert(rows[ends], 1, arrangement.bend_rows[edge])
        legs = pairwise(zip(stops, passed.tolist(), strict=True))
        curves.append(np.concatenate([join(begin, end) for begin, end in legs]))
    return curves


def find_widths(size_bytes: IntArray, scale: float) -> FloatArray:
    """(n_edges,) widths of lines in points, wider for more bytes."""
    share = np.sqrt(size_bytes / max(size_bytes.max(initial=0), 1))
    thinner = scale * min(1.0, np.sqrt(MANY_EDGES / max(len(size_bytes), 1)))
    widths: FloatArray = thinner * (MIN_LINE_PT + (MAX_LINE_PT - MIN_LINE_PT) * share)
    return np.maximum(widths, 0.35)


def join(begin: tuple[FloatArray, int], end: tuple[FloatArray, int]) -> FloatArray:
    """(len(CURVE), 2) points of a curve between two points, along their rows."""
    (start, first), (stop, last) = begin, end
    ahead = abs(stop[0] - start[0]) / 2 if first == last else 0.6 * COLUMN_IN
    if first == last and ahead < 1e-6:
        ahead = 0.25 * COLUMN_IN  # within one column: a bow to the side
    out = np.array([ahead * (-1 if first % 2 else 1), 0.0])
    into = np.array([ahead * (-1 if last % 2 else 1), 0.0])
    t = CURVE[:, None]
    curve: FloatArray = (
        (1 - t) ** 3 * start
        + 3 * (1 - t) ** 2 * t * (start + out)
        + 3 * (1 - t) * t**2 * (stop - into)
        + t**3 * stop
    )
    return curve


COLUMN_IN, LANE_IN = 0.8, 0.4
"""Distances of layers, and of units in a layer, at full scale."""
PAGE_IN = (10.4, 7.5)
"""Largest width and height of a picture."""
ROW_GAP = 1.6
"""Distance of rows, in lanes. Hand-tuned."""
MAX_ROWS, MAX_FOLDS = 60, 40
"""Most rows of layers, and most columns of a tall layer, that are tried. Hand-tuned."""
FEW_LAYERS = 12
"""Graphs of fewer layers may fold tall ones into several columns."""


@dataclass(frozen=True)
class Arrangement:
    """Positions of units and bends of edges, in inches to the right and upwards.

    Attributes:
        points: (n_units, 2) units.
        row: (n_units,) row of each unit; rows run to the right and back.
        bends: (k, 2) points that each edge passes.
        bend_rows: (k,) rows of these points, for each edge.
        starts: (n_rows, 2) beginnings of the rows.
        scale: Distances as a share of ``COLUMN_IN`` and ``LANE_IN``.
    """

    points: FloatArray
    row: IntArray
    bends: list[FloatArray]
    bend_rows: list[IntArray]
    starts: FloatArray
    scale: float


def arrange(graph: OpGraph) -> Arrangement:
    """Lay a graph out in rows, or with folded layers, whichever a page shows largest."""
    layout = lay_out(graph)
    n_layers = int(layout.layer.max(initial=0)) + 1
    lengths = {-(-n_layers // n_rows) for n_rows in range(1, min(n_layers, MAX_ROWS) + 1)}
    rows = [arrange_rows(graph, layout, per_row) for per_row in sorted(lengths, reverse=True)]
    best, *others = [*rows, *(fold_layers(graph, layout, lanes) for lanes in list_lanes(layout))]
    for arrangement in others:
        if arrangement.scale > 1.05 * best.scale:
            best = arrangement
    return best


def arrange_rows(graph: OpGraph, layout: Layout, per_row: int) -> Arrangement:
    """Arrange rows of ``per_row`` layers, which run to the right and back."""
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
    """Heights at which to fold tall layers; none for graphs of many layers."""
    counts = np.bincount(layout.layer)
    if len(counts) >= FEW_LAYERS:
        return []
    heights = {-(-int(counts.max()) // folds) for folds in range(2, MAX_FOLDS + 1)}
    return sorted(heights, reverse=True)


def fold_layers(graph: OpGraph, layout: Layout, lanes: int) -> Arrangement:
    """Arrange one row, whose layers fold into columns of ``lanes`` units."""
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
    """Scale (n, 2) columns and lanes, upwards, to inches; also return the scale."""
    distances = np.array([COLUMN_IN, LANE_IN])
    wide, tall = np.ptp(places, axis=0) * distances
    scale = min(1.0, PAGE_IN[0] / max(wide, COLUMN_IN), PAGE_IN[1] / max(tall, LANE_IN))
    return (places - places[0]) * distances * scale, scale
