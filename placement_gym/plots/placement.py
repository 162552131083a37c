"""Pictures: a placement drawn on its graph, and a comparison of agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.graph.operators import OpGraph
from placement_gym.problem import Problem

COLOURS = (
    *("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#222222"),
    *("#99ddff", "#ffaabb", "#aaaa00", "#dddddd", "#ee8866", "#004488", "#bbcc33", "#997700"),
)
UNITS_A_ROW = 45
TALLEST_ROW = 24.0


def draw_placement(problem: Problem, assignment: IntArray, title: str) -> Figure:
    """The grouped graph from left to right, row by row; a node's area grows with its work."""
    graph = problem.units.quotient
    x, y = layout(graph)
    row, across = np.divmod(x, UNITS_A_ROW)
    down = stacked(row, y)
    figure = Figure(figsize=(11, max(2.6, 0.28 * (3.0 - down.min()))), layout="constrained")
    axes = figure.add_subplot()
    for source, target in graph.edge_index.T:
        colour = "#bbbbbb" if assignment[source] == assignment[target] else "#000000"
        if row[source] == row[target]:
            start, end = ((across[unit], down[unit]) for unit in (source, target))
            draw_edge(axes, start, end, colour)
    area = 20 + 160 * np.sqrt(graph.flops / max(graph.flops.max(), 1.0))
    for index, name in enumerate(problem.device_names):
        here = assignment == index
        points = (across[here], down[here], area[here])
        axes.scatter(*points, COLOURS[index], label=name, zorder=2, clip_on=False)
    axes.set_title(title, fontsize=10)
    axes.set_ylim(down.min() - 0.9, down.max() + 0.9)
    axes.set_axis_off()
    legend = figure.legend(loc="outside lower center", ncols=len(problem.devices), frameon=False)
    for handle in legend.legend_handles:
        handle.set_sizes([60])  # type: ignore[union-attr]
    return figure


def stacked(row: IntArray, y: FloatArray) -> FloatArray:
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


def draw_edge(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str
) -> None:
    """A line to the next unit, an arc past units in between."""
    steps = end[0] - start[0]
    bend = 0.0 if steps <= 1 else min(0.3, 1.2 / steps)
    looks: dict[str, Any] = {
        "arrowstyle": "-",
        "color": colour,
        "linewidth": 0.8,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    line = FancyArrowPatch(start, end, connectionstyle=f"arc3,rad={bend}", zorder=1, **looks)
    axes.add_patch(line)


def layout(graph: OpGraph) -> tuple[IntArray, FloatArray]:
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
    """Speed-up of each agent's finalist over the best single device, with its uncertainty.

    Speed-ups are drawn, not latencies: each was taken in one interleaved run with the device it
    is compared with, latencies of different rows were not.

    Args:
        rows: Result rows; those without a latency are left out.
        title: Heading of the figure.
    """
    measured = [row for row in rows if row["latency_ms"] is not None]
    measured.sort(key=lambda row: -row["speedup_vs_best_single"])
    figure = Figure(figsize=(9, 1.6 + 0.36 * len(measured)), layout="constrained")
    axes = figure.add_subplot()
    position = np.arange(len(measured))
    speedup = np.array([row["speedup_vs_best_single"] for row in measured])
    noise = speedup * np.array([row["noise"] for row in measured])
    won = [row["beats_best_single"] == "yes" for row in measured]
    axes.barh(position, speedup, color=[COLOURS[2] if yes else COLOURS[0] for yes in won])
    axes.errorbar(speedup, position, xerr=noise, fmt="none", ecolor="black", capsize=3)
    axes.axvline(1.0, color=COLOURS[1], ls="--", lw=1)
    ends = speedup + noise
    for row, end, place in zip(measured, ends, position, strict=True):
        text = f"{row['latency_ms']:.2f} ms"
        axes.annotate(text, (end, place), (5, 0), textcoords="offset points", va="center", size=8)
    axes.set(yticks=position, yticklabels=[row["label"] for row in measured])
    axes.set(xlabel="speed-up over the best single device", xlim=(0, float(ends.max()) * 1.15))
    axes.set_title(title, fontsize=10, loc="left")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_fidelity(document: Mapping[str, Any]) -> Figure:
    """Predicted over measured latency, and beside it the share of slow work over the same.

    Args:
        document: What ``bench.fidelity.fidelity`` returns.
    """
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes, beside = figure.subplots(1, 2)
    rows, twin, share = document["rows"], document["twin"], document["slow_share"]
    measured = np.array([row["measured_ms"] for row in rows])
    predicted = np.array([row["predicted_ms"] for row in rows])
    ends = [
        min(measured.min(), predicted.min()) * 0.95,
        max(measured.max(), predicted.max()) * 1.05,
    ]
    axes.plot(ends, ends, color="#bbbbbb", lw=1, zorder=0)
    axes.errorbar(
        measured,
        predicted,
        xerr=measured * np.array([row["noise"] for row in rows]),
        fmt="o",
        ms=4,
        lw=0.8,
        color=COLOURS[0],
    )
    axes.set(xlabel="measured, ms", ylabel="predicted by the twin, ms", xlim=ends, ylim=ends)
    axes.set_title(
        f"Spearman {twin['spearman']:.3f} ({twin['spearman_fastest_third']:.3f} in the fastest "
        f"third)\nmedian error {100 * twin['median_error']:.1f} %",
        fontsize=10,
        loc="left",
    )
    beside.plot(measured, [row["slow_share"] for row in rows], "o", ms=4, color=COLOURS[1])
    beside.set(xlabel="measured, ms", ylabel="share of work on slower devices", ylim=(-0.03, 1.03))
    beside.set_title(
        f"Spearman {share['spearman']:.3f} ({share['spearman_fastest_third']:.3f})\n",
        fontsize=10,
        loc="left",
    )
    figure.suptitle(f"{document['model']} on {', '.join(document['devices'])}", fontsize=11)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, dpi=150)
