"""The names of units and the key in a placement's picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from placement_gym.base import (
    FloatArray,
    IntArray,
    escape_figure_text,
    format_bytes,
    make_printable,
)
from placement_gym.graph import OpGraph
from placement_gym.problem import Problem
from placement_gym.view.figures.style import COLOURS, CROSSING, GROUND, WITHIN

FONT_SIZE = 6.0
LETTER_IN, LINE_IN = 0.056, 0.1
"""Size of a letter, with a little room."""
MIN_LETTERS, MAX_LETTERS = 8, 24
"""Letters of a name. Hand-tuned."""
WIDE_LAYERS_IN, MAX_NAMED_UNITS = 0.33, 40
"""If layers are closer, only so many units, with the most work, are named. Hand-tuned."""
LABEL_BOX = {"facecolor": GROUND, "alpha": 0.75, "pad": 0.2, "linewidth": 0.0}
"""Box that hides lines behind a name."""
POINTS_PER_INCH = 72.0
"""Areas of circles are in square points."""

LEFT, BOTTOM, RIGHT, TOP = range(4)
"""Columns of boxes."""
ROW_ENTRIES = 9
"""Entries in a row of the key. Hand-tuned."""


def add_names(
    axes: Axes, graph: OpGraph, points: FloatArray, area: FloatArray, column_in: float
) -> None:
    """Write names below circles, those with the most work first, unless they would overlap.

    The axes, the (n_units, 2) points and ``column_in``, the distance of layers, are in inches,
    (n_units,) areas in square points.
    """
    letters = int(np.clip(column_in / LETTER_IN, MIN_LETTERS, MAX_LETTERS))
    radius = np.sqrt(area) / 2 / POINTS_PER_INCH
    circles = np.concatenate([points - radius[:, None], points + radius[:, None]], axis=1)
    below = points - np.stack([np.zeros_like(radius), radius], axis=1)
    order = np.argsort(-graph.flops, kind="stable").tolist()
    box_of: dict[int, FloatArray] = {}
    lengths: dict[int, int] = {}

    def try_length(unit: int, length: int) -> None:
        box = find_box(below[unit], len(shorten(graph.names[unit], length)))
        other_boxes = [other for named_unit, other in box_of.items() if named_unit != unit]
        if not overlaps(box, np.array([*other_boxes, *circles])):
            box_of[unit] = box
            lengths[unit] = length

    for unit in order[: len(graph) if column_in >= WIDE_LAYERS_IN else MAX_NAMED_UNITS]:
        try_length(unit, letters)
    for unit in [*box_of]:
        for length in range(letters + 4, MAX_LETTERS + 1, 4):
            try_length(unit, length)
    for unit, length in lengths.items():
        text = escape_figure_text(shorten(graph.names[unit], length))
        x, y = below[unit] - (0.0, 0.02)
        axes.text(x, y, text, size=FONT_SIZE, ha="center", va="top", bbox=LABEL_BOX)


def shorten(name: str, letters: int) -> str:
    printable = make_printable(name)
    return printable if len(printable) <= letters else f"…{printable[1 - letters :]}"


def find_box(point: FloatArray, letters: int) -> FloatArray:
    """(left, bottom, right, top) of a number of letters below a point."""
    x, y = point
    half = letters * LETTER_IN / 2
    return np.array([x - half, y - LINE_IN - 0.02, x + half, y - 0.01])


def overlaps(box: FloatArray, others: FloatArray) -> bool:
    """Return whether a box overlaps one of (n, 4) others."""
    is_apart = (
        (others[:, LEFT] >= box[RIGHT])
        | (others[:, RIGHT] <= box[LEFT])
        | (others[:, BOTTOM] >= box[TOP])
        | (others[:, TOP] <= box[BOTTOM])
    )
    return not is_apart.all()


def add_key(
    figure: Figure,
    problem: Problem,
    circles: tuple[FloatArray, FloatArray],
    lines: tuple[IntArray, float],
) -> None:
    """Add a legend of colours, areas and lines below a picture.

    ``circles`` is (n_units,) work and the areas of none and of the most in square points;
    ``lines`` is (n_edges,) bytes and the width of the widest in points.
    """
    (flops, areas), (size_bytes, widest) = circles, lines
    entries = [
        make_circle(escape_figure_text(name), COLOURS[index % len(COLOURS)], 8.0)
        for index, name in enumerate(problem.device_names)
    ]
    if flops.max(initial=0.0) > 0:
        entries += [
            make_circle("no work", WITHIN, float(np.sqrt(areas[0]))),
            make_circle(format_flops(float(flops.max())), WITHIN, float(np.sqrt(areas[1]))),
        ]
    largest = int(size_bytes.max(initial=0))
    entries += [
        Line2D([], [], color=WITHIN, lw=1, label="within a device"),
        Line2D([], [], color=CROSSING, lw=1, label="device changes"),
    ]
    if largest:
        entries.append(Line2D([], [], color=WITHIN, lw=widest, label=format_bytes(largest)))
    style: dict[str, Any] = {"columnspacing": 1.4, "frameon": False, "fontsize": 8}
    ncols = min(ROW_ENTRIES, len(entries))
    figure.legend(handles=entries, loc="outside lower center", ncols=ncols, **style)


def make_circle(label: str, colour: str, size: float) -> Line2D:
    return Line2D([], [], ls="", marker="o", color=colour, ms=size, mew=0, label=label)


def format_flops(value: float) -> str:
    """``"1.2 GFLOP"``."""
    power = min(max(len(f"{value:.0f}") - 1, 0) // 3, 4)
    return f"{value / 1e3**power:.3g} {('', 'k', 'M', 'G', 'T')[power]}FLOP"
