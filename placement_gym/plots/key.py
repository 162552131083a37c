"""The key of a placement's picture: devices, sizes and edges."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.plots.style import COLOURS, CROSSING, WITHIN
from placement_gym.problem import Problem
from placement_gym.texts import escape_figure_text

ROW = 9
"""Entries of one row."""


def add_key(figure: Figure, problem: Problem, flops: FloatArray, size_bytes: IntArray) -> None:
    """Say below a picture what colours, areas and lines mean.

    Args:
        figure: The picture.
        problem: Names the devices.
        flops: Work of each circle.
        size_bytes: Bytes of each line.
    """
    entries = [
        make_circle(escape_figure_text(name), COLOURS[index % len(COLOURS)], 8.0)
        for index, name in enumerate(problem.device_names)
    ]
    if flops.max(initial=0.0) > 0:
        entries += [
            make_circle("no work", WITHIN, 4.5),
            make_circle(scale_unit(float(flops.max()), "FLOP"), WITHIN, 13.4),
        ]
    largest = int(size_bytes.max(initial=0))
    entries += [
        Line2D([], [], color=WITHIN, lw=1, label="within a device"),
        Line2D([], [], color=CROSSING, lw=1, label="device changes"),
    ]
    if largest:
        entries.append(Line2D([], [], color=WITHIN, lw=3.5, label=scale_unit(largest, "B")))
    figure.legend(
        handles=entries,
        loc="outside lower center",
        ncols=min(ROW, len(entries)),
        columnspacing=1.4,
        frameon=False,
        fontsize=8,
    )


def make_circle(label: str, colour: str, size: float) -> Line2D:
    """An entry with a circle of a diameter in points."""
    return Line2D([], [], ls="", marker="o", color=colour, ms=size, mew=0, label=label)


def scale_unit(value: float, unit: str) -> str:
    """A quantity with a prefix, as in ``"1.2 GFLOP"``."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
