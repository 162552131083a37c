"""Pictures: a placement drawn on its graph, and a comparison of agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from placement_gym.graph.operators import IntArray, OpGraph
from placement_gym.problem import Problem

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#222222")
UNITS_A_ROW = 45


def draw_placement(problem: Problem, assignment: IntArray, title: str) -> Figure:
    """The grouped graph from left to right, row by row; a node's area grows with its work."""
    graph = problem.units.quotient
    x, y = layout(graph)
    rows = int(x.max() // UNITS_A_ROW) + 1
    height = (y.max() - y.min() + 3.0) * rows
    figure = Figure(figsize=(11, max(2.6, 0.28 * height)), layout="constrained")
    axes = figure.add_subplot()
    row = x // UNITS_A_ROW
    across, down = x - row * UNITS_A_ROW, -y - row * (y.max() - y.min() + 3.0)
    for source, target in graph.edge_index.T:
        colour = "#bbbbbb" if assignment[source] == assignment[target] else "#000000"
        if row[source] == row[target]:
            axes.plot(across[[source, target]], down[[source, target]], colour, lw=0.8, zorder=1)
    area = 20 + 160 * np.sqrt(graph.flops / max(graph.flops.max(), 1.0))
    for index, name in enumerate(problem.device_names):
        here = assignment == index
        axes.scatter(across[here], down[here], area[here], COLOURS[index], label=name, zorder=2)
    axes.set_title(title, fontsize=10)
    axes.set_axis_off()
    legend = figure.legend(loc="outside lower center", ncols=len(problem.devices), frameon=False)
    for handle in legend.legend_handles:
        handle.set_sizes([60])  # type: ignore[union-attr]
    return figure


def layout(graph: OpGraph) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(n,) depth, and (n,) position among the units of that depth, centred on zero."""
    depth = np.zeros(len(graph), dtype=np.int64)
    for target, sources in enumerate(graph.predecessors()):
        depth[target] = max((depth[source] + 1 for source in sources), default=0)
    y = np.zeros(len(graph))
    for level in np.unique(depth):
        here = np.flatnonzero(depth == level)
        y[here] = np.arange(len(here)) - (len(here) - 1) / 2
    return depth, y


def draw_comparison(rows: Sequence[dict[str, Any]], title: str) -> Figure:
    """Median and 90th percentile of each agent's finalist, fastest first.

    Args:
        rows: Result rows; those without a latency are left out.
        title: Heading of the figure.
    """
    measured = sorted((row for row in rows if row["latency_ms"]), key=lambda r: r["latency_ms"])
    figure = Figure(figsize=(9, 1.4 + 0.36 * len(measured)), layout="constrained")
    axes = figure.add_subplot()
    position = np.arange(len(measured))
    latency = np.array([row["latency_ms"] for row in measured])
    p90 = np.array([row["latency_p90_ms"] or row["latency_ms"] for row in measured])
    colours = [COLOURS[2] if row["beats_best_single"] == "yes" else COLOURS[0] for row in measured]
    axes.barh(position, latency, color=colours, height=0.6)
    axes.errorbar(
        latency, position, xerr=[0 * latency, p90 - latency], fmt="none", ecolor="black", capsize=3
    )
    singles = [row["latency_ms"] for row in measured if row["agent"] == "single-device"]
    if singles:
        axes.axvline(min(singles), color=COLOURS[1], ls="--", lw=1, label="best single device")
        axes.legend(frameon=False, loc="lower right", fontsize=8)
    label_bars(axes, measured, p90)
    axes.set(yticks=position, yticklabels=[row["label"] for row in measured], xlabel="latency, ms")
    axes.set_title(title, fontsize=10)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def label_bars(axes: Axes, rows: Sequence[dict[str, Any]], ends: NDArray[np.float64]) -> None:
    for position, (row, end) in enumerate(zip(rows, ends, strict=True)):
        axes.annotate(
            f"{row['latency_ms']:.2f}",
            (end, position),
            (5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_xlim(0, float(ends.max()) * 1.12)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, dpi=150)
