"""Picture of a placement of a large graph: groups of units of similar depth on a device."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from placement_gym.base import FloatArray, IntArray, escape_figure_text
from placement_gym.problem import Problem
from placement_gym.view import assign_layers
from placement_gym.view.figures.style import COLOURS, CROSSING, WITHIN

COLUMNS = 40
"""Groups of units from left to right. Hand-tuned."""
MAX_AREA_PT2, MAX_LINE_PT = 220.0, 4.0
"""Largest circle in square points and widest line in points. Hand-tuned."""


def draw_large_placement(problem: Problem, assignment: IntArray, title: str) -> Figure:
    """Draw a lane for each device and at most ``COLUMNS`` columns of similar depth.

    A circle is the units of a column on a device, a line the edges between two circles.
    """
    n_devices, depth = len(problem.devices), assign_layers(problem.units.quotient)
    column = split_into_columns(depth)
    n_levels, n_columns = int(depth.max()) + 1, int(column.max()) + 1
    figure = Figure(figsize=(11, 1.6 + 0.6 * n_devices), layout="constrained")
    axes = figure.add_subplot()
    axes.add_collection(draw_group_edges(problem, column * n_devices + assignment))
    shares = work_shares(problem, assignment, column, n_columns)
    for index in range(n_devices):
        groups = np.flatnonzero(shares[:, index])
        area = MAX_AREA_PT2 * shares[groups, index]
        lane, colour = np.full(len(groups), index), COLOURS[index % len(COLOURS)]
        axes.scatter(groups, lane, area, colour, zorder=2, clip_on=False)
    counts = np.bincount(assignment, minlength=n_devices)
    axes.set(yticks=range(n_devices), ylim=(n_devices - 0.4, -0.6), xticks=[])
    axes.set_yticklabels(
        f"{escape_figure_text(name)}: {count / len(depth):.0%} of units"
        for name, count in zip(problem.device_names, counts, strict=True)
    )
    axes.set_xlabel(
        f"depth: {n_levels:,} levels of {len(depth):,} units in {n_columns} columns; "
        "area: share of the column's work; lines: edges, wider for more, black where the device "
        "changes",
        fontsize=8,
    )
    axes.set_title(escape_figure_text(title), fontsize=10, wrap=True)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return figure


def split_into_columns(depth: IntArray) -> IntArray:
    """(n,) column of each unit: several levels, or if there are few levels a part of one."""
    n_levels = int(depth.max()) + 1
    if n_levels >= COLUMNS:
        return depth * COLUMNS // n_levels
    parts = COLUMNS // n_levels
    counts = np.bincount(depth)
    order = np.argsort(depth, kind="stable")
    place = np.empty(len(depth), dtype=np.int64)
    place[order] = np.arange(len(depth)) - np.repeat(np.cumsum(counts) - counts, counts)
    column = depth * parts + place * np.minimum(parts, counts)[depth] // counts[depth]
    numbered: IntArray = np.unique(column, return_inverse=True)[1]
    return numbered


def work_shares(
    problem: Problem, assignment: IntArray, column: IntArray, n_columns: int
) -> FloatArray:
    """(n_columns, n_devices) shares of each column's work; a unit without work counts a little."""
    n_devices = len(problem.devices)
    flops = problem.units.quotient.flops
    work = flops + max(1e-3 * flops.mean(), 1.0)
    total = np.bincount(column * n_devices + assignment, work, n_columns * n_devices)
    total = total.reshape(n_columns, n_devices)
    shares: FloatArray = total / total.sum(axis=1, keepdims=True)
    return shares


def draw_group_edges(problem: Problem, group: IntArray) -> LineCollection:
    """Draw lines between groups, wider for more edges.

    ``group`` is (n_units,) column times the number of devices plus device.
    """
    ends = group[problem.units.quotient.edge_index]
    ends = ends[:, ends[0] != ends[1]]
    (source, target), counts = np.unique(ends, axis=1, return_counts=True)
    columns, lanes = np.divmod(np.stack([source, target], axis=1), len(problem.devices))
    crossing = lanes[:, 0] != lanes[:, 1]
    widths = MAX_LINE_PT * np.sqrt(counts / counts.max(initial=1))
    return LineCollection(
        list(np.stack([columns, lanes], axis=2).astype(np.float64)),
        colors=np.where(crossing, CROSSING, WITHIN).tolist(),
        linewidths=np.maximum(widths, 0.15),
        zorder=1,
    )
