"""A placement drawn on its graph."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.graph.operators import OpGraph
from placement_gym.plots.arrangement import COLUMN_IN, Arrangement, arrange
from placement_gym.plots.key import add_key
from placement_gym.plots.large_placement import draw_large_placement
from placement_gym.plots.names import add_names
from placement_gym.plots.style import COLOURS, CROSSING, WITHIN
from placement_gym.problem import Problem
from placement_gym.texts import escape_figure_text

MAX_EDGES = 2_000
"""Larger graphs are drawn in groups of units."""
SMALLEST_AREA, LARGEST_AREA = 20.0, 180.0
"""Of a unit's circle, in square points, at full scale."""
THINNEST_LINE, WIDEST_LINE = 0.5, 3.5
MANY_EDGES = 200
"""More of them are thinner."""
CURVE = np.linspace(0.0, 1.0, 15)
PAGE_WIDTH_IN, MARGIN_IN = 11.0, 0.35


def draw_placement(problem: Problem, assignment: IntArray, title: str) -> Figure:
    """Draw the units of a graph layer by layer, coloured by device.

    A unit's area grows with its work, an edge's width with its bytes; units are named where there
    is room. Long graphs continue in further rows, which run to the right and back, and wide layers
    in further columns; graphs of more than ``MAX_EDGES`` edges are drawn by
    ``draw_large_placement``.

    Args:
        problem: Units and devices.
        assignment: (n_units,) device of each unit.
        title: Heading of the figure.
    """
    graph = problem.units.quotient
    if graph.n_edges > MAX_EDGES:
        return draw_large_placement(problem, assignment, title)
    arrangement, size_bytes = arrange(graph), edge_bytes(graph)
    points = arrangement.points
    lines = draw_edges(graph, arrangement, assignment, size_bytes)
    drawn = np.concatenate([points, *lines.get_segments()])
    (left, bottom), (right, top) = drawn.min(axis=0) - MARGIN_IN, drawn.max(axis=0) + MARGIN_IN
    aside = max(0.0, PAGE_WIDTH_IN - (right - left)) / 2
    figure = Figure(figsize=(PAGE_WIDTH_IN, max(1.9, top - bottom + 0.8)), layout="constrained")
    axes = figure.add_subplot(xlim=(left - aside, right + aside), ylim=(bottom, top))
    axes.set_axis_off()
    axes.set_title(escape_figure_text(title), fontsize=10)
    axes.add_collection(lines)
    share = np.sqrt(graph.flops / max(graph.flops.max(), 1.0))
    area = arrangement.scale**2 * (SMALLEST_AREA + (LARGEST_AREA - SMALLEST_AREA) * share)
    for index in np.unique(assignment).tolist():
        here = assignment == index
        x, y = points[here].T
        axes.scatter(x, y, area[here], COLOURS[index % len(COLOURS)], zorder=2)
    for row, start in enumerate(arrangement.starts if len(arrangement.starts) > 1 else ()):
        x = start[0] + (MARGIN_IN if row % 2 else -MARGIN_IN) / 2
        axes.plot(x, start[1], "<" if row % 2 else ">", color=CROSSING, ms=4, zorder=3)
    add_names(axes, graph, points, area, arrangement.scale * COLUMN_IN)
    add_key(figure, problem, graph.flops, size_bytes)
    return figure


def edge_bytes(graph: OpGraph) -> IntArray:
    """(n_edges,) bytes of the tensors that each edge's target reads from its source."""
    tensor, reader = graph.tensors.readings()
    keys = graph.edge_index[0] * len(graph) + graph.edge_index[1]
    order = np.argsort(keys)
    wanted = graph.tensors.source[tensor] * len(graph) + reader
    edge = order[np.searchsorted(keys, wanted, sorter=order)]
    total = np.bincount(edge, graph.tensors.size_bytes[tensor], graph.n_edges)
    return total.astype(np.int64)


def draw_edges(
    graph: OpGraph, arrangement: Arrangement, assignment: IntArray, size_bytes: IntArray
) -> LineCollection:
    """Lines from unit to unit around the units of layers in between; those that cross on top.

    Args:
        graph: The units.
        arrangement: Where they are, and where the edges bend.
        assignment: (n_units,) device of each unit.
        size_bytes: (n_edges,) bytes of each edge.
    """
    source, target = graph.edge_index
    crossing = assignment[source] != assignment[target]
    order = np.argsort(crossing, kind="stable")
    points, rows, lines = arrangement.points, arrangement.row, []
    for edge in order.tolist():
        ends = [int(source[edge]), int(target[edge])]
        stops = np.insert(points[ends], 1, arrangement.bends[edge], axis=0)
        passed = np.insert(rows[ends], 1, arrangement.bend_rows[edge])
        legs = pairwise(zip(stops, passed.tolist(), strict=True))
        lines.append(np.concatenate([join(begin, end) for begin, end in legs]))
    share = np.sqrt(size_bytes[order] / max(size_bytes.max(initial=0), 1))
    thinner = arrangement.scale * min(1.0, np.sqrt(MANY_EDGES / max(len(lines), 1)))
    widths = thinner * (THINNEST_LINE + (WIDEST_LINE - THINNEST_LINE) * share)
    return LineCollection(
        lines,
        colors=np.where(crossing[order], CROSSING, WITHIN).tolist(),
        linewidths=np.maximum(widths, 0.35),
        zorder=1,
    )


def join(begin: tuple[FloatArray, int], end: tuple[FloatArray, int]) -> FloatArray:
    """(len(CURVE), 2) points of a curve that leaves and arrives along the rows.

    Args:
        begin: (2,) point and its row.
        end: The same of the other end.
    """
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
