"""A placement drawn on its graph."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.graph.operators import OpGraph
from placement_gym.plots.large_placement import draw_large_placement
from placement_gym.plots.style import COLOURS, CROSSING, WITHIN
from placement_gym.problem import Problem
from placement_gym.texts import escape_figure_text

MAX_EDGES = 2_000
"""Larger graphs are drawn in groups of units."""
UNITS_A_ROW = 45
TALLEST_ROW = 24.0
CURVE = np.linspace(0.0, 1.0, 13)


def draw_placement(problem: Problem, assignment: IntArray, title: str) -> Figure:
    """Draw the units of a graph from left to right, coloured by device.

    A unit's area grows with its work. Long graphs continue in a further row; graphs of more than
    ``MAX_EDGES`` edges are drawn by ``draw_large_placement``.

    Args:
        problem: Units and devices.
        assignment: (n_units,) device of each unit.
        title: Heading of the figure.
    """
    graph = problem.units.quotient
    depth = compute_depth(graph)
    if graph.n_edges > MAX_EDGES:
        return draw_large_placement(problem, assignment, depth, title)
    row, across = np.divmod(depth, UNITS_A_ROW)
    down = stack_rows(row, spread_levels(depth))
    figure = Figure(figsize=(11, max(2.6, 0.28 * (3.0 - down.min()))), layout="constrained")
    axes = figure.add_subplot()
    edges = graph.edge_index[:, row[graph.edge_index[0]] == row[graph.edge_index[1]]]
    axes.add_collection(draw_edges(edges, across, down, assignment))
    area = 20 + 160 * np.sqrt(graph.flops / max(graph.flops.max(), 1.0))
    for index, name in enumerate(problem.device_names):
        here = assignment == index
        points = (across[here], down[here], area[here])
        colour, label = COLOURS[index % len(COLOURS)], escape_figure_text(name)
        axes.scatter(*points, colour, label=label, zorder=2, clip_on=False)
    axes.set_title(escape_figure_text(title), fontsize=10)
    axes.set_ylim(down.min() - 0.9, down.max() + 0.9)
    axes.set_axis_off()
    legend = figure.legend(loc="outside lower center", ncols=len(problem.devices), frameon=False)
    for handle in legend.legend_handles:
        handle.set_sizes([60])  # type: ignore[union-attr]
    return figure


def compute_depth(graph: OpGraph) -> IntArray:
    """(n,) length of the longest path to each unit from a unit without predecessors."""
    depth = [0] * len(graph)
    for target, sources in enumerate(graph.predecessors()):
        depth[target] = max((depth[source] + 1 for source in sources), default=0)
    return np.array(depth, dtype=np.int64)


def spread_levels(depth: IntArray) -> FloatArray:
    """(n,) position among the units of the same depth, centred on zero."""
    y = np.zeros(len(depth))
    for level in np.unique(depth):
        here = np.flatnonzero(depth == level)
        y[here] = np.arange(len(here)) - (len(here) - 1) / 2
    return y


def stack_rows(row: IntArray, y: FloatArray) -> FloatArray:
    """(n,) heights, from 0 down, with rows below each other; rows that are too tall are pressed."""
    down = np.zeros(len(y))
    top = 0.0
    for number in range(int(row.max()) + 1):
        here = row == number
        tall = float(np.ptp(y[here]))
        pressed = min(1.0, TALLEST_ROW / max(tall, 1.0))
        down[here] = top - (y[here] - y[here].min()) * pressed
        top -= tall * pressed + 3.0
    return down


def draw_edges(
    edges: IntArray, across: IntArray, down: FloatArray, assignment: IntArray
) -> LineCollection:
    """Lines to the next unit, and arcs past units in between.

    Args:
        edges: (2, n_edges) units.
        across: (n_units,) horizontal positions.
        down: (n_units,) vertical positions.
        assignment: (n_units,) device of each unit.
    """
    edges = edges[:, np.argsort(assignment[edges[0]] != assignment[edges[1]], kind="stable")]
    source, target = edges
    steps = across[target] - across[source]
    sag = np.where(steps > 1, np.minimum(0.15 * steps, 0.6), 0.0)[:, None]
    x = across[source][:, None] + steps[:, None] * CURVE
    y = down[source][:, None] + (down[target] - down[source])[:, None] * CURVE
    y -= 4.0 * sag * CURVE * (1.0 - CURVE)
    crossing = assignment[source] != assignment[target]
    colours = np.where(crossing, CROSSING, WITHIN).tolist()
    return LineCollection(list(np.stack([x, y], axis=2)), colors=colours, linewidths=0.8, zorder=1)
