"""The key of a placement's picture: devices, sizes and edges."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.texts import escape_figure_text
from placement_gym.problem.problem import Problem
from placement_gym.view.figures.style import COLOURS, CROSSING, WITHIN

ROW = 9
"""Entries of one row."""


def add_key(
    figure: Figure,
    problem: Problem,
    circles: tuple[FloatArray, FloatArray],
    lines: tuple[IntArray, float],
) -> None:
    """Say below a picture what colours, areas and lines mean.

    Args:
        figure: The picture.
        problem: Names the devices.
        circles: (n_units,) work, and areas at no work and at most, in square points.
        lines: (n_edges,) bytes, and the width of the widest in points.
    """
    (flops, areas), (size_bytes, widest) = circles, lines
    entries = [
        make_circle(escape_figure_text(name), COLOURS[index % len(COLOURS)], 8.0)
        for index, name in enumerate(problem.device_names)
    ]
    if flops.max(initial=0.0) > 0:
        entries += [
            make_circle("no work", WITHIN, float(np.sqrt(areas[0]))),
            make_circle(scale_unit(float(flops.max()), "FLOP"), WITHIN, float(np.sqrt(areas[1]))),
        ]
    largest = int(size_bytes.max(initial=0))
    entries += [
        Line2D([], [], color=WITHIN, lw=1, label="within a device"),
        Line2D([], [], color=CROSSING, lw=1, label="device changes"),
    ]
    if largest:
        entries.append(Line2D([], [], color=WITHIN, lw=widest, label=scale_unit(largest, "B")))
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
