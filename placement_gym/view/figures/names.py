"""Names of units in a picture, where there is room for them."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from placement_gym.base.arrays import FloatArray
from placement_gym.base.texts import escape_figure_text, make_printable
from placement_gym.graph.operators import OpGraph
from placement_gym.view.figures.style import GROUND

FONT_SIZE = 6.0
LETTER_IN, LINE_IN = 0.056, 0.1
"""Size of a letter, including a little room."""
SHORTEST, LONGEST = 8, 24
"""Letters of a name."""
WIDE_IN, FEW = 0.33, 40
"""Distance of layers below which only so many units, those with most work, are named."""
BEHIND = {"facecolor": GROUND, "alpha": 0.75, "pad": 0.2, "linewidth": 0.0}
"""Keeps lines from running through a name."""
INCH = 72.0
"""Points of an inch, in which areas of circles are measured."""

LEFT, BOTTOM, RIGHT, TOP = range(4)
"""Columns of boxes."""


def add_names(
    axes: Axes, graph: OpGraph, points: FloatArray, area: FloatArray, column_in: float
) -> None:
    """Write names below circles, those with most work first, unless they would overlap.

    Args:
        axes: In inches, with the circles.
        graph: The units.
        points: (n_units, 2) their circles' centres in inches.
        area: (n_units,) areas in square points.
        column_in: Distance between layers in inches.
    """
    letters = int(np.clip(column_in / LETTER_IN, SHORTEST, LONGEST))
    radius = np.sqrt(area) / 2 / INCH
    circles = np.concatenate([points - radius[:, None], points + radius[:, None]], axis=1)
    below = points - np.stack([np.zeros_like(radius), radius], axis=1)
    order = np.argsort(-graph.flops, kind="stable").tolist()
    named: dict[int, FloatArray] = {}

    def try_length(unit: int, length: int) -> None:
        box = find_box(below[unit], len(shorten(graph.names[unit], length)))
        others = [other for one, other in named.items() if one != unit]
        if not overlaps(box, np.array([*others, *circles])):
            named[unit] = box
            lengths[unit] = length

    lengths: dict[int, int] = {}
    for unit in order[: len(graph) if column_in >= WIDE_IN else FEW]:
        try_length(unit, letters)
    for unit in [*named]:
        for length in range(letters + 4, LONGEST + 1, 4):
            try_length(unit, length)
    for unit, length in lengths.items():
        text = escape_figure_text(shorten(graph.names[unit], length))
        x, y = below[unit] - (0.0, 0.02)
        axes.text(x, y, text, size=FONT_SIZE, ha="center", va="top", bbox=BEHIND)


def shorten(name: str, letters: int) -> str:
    """The end of a name, which tells it from others."""
    shown = make_printable(name)
    return shown if len(shown) <= letters else f"…{shown[1 - letters :]}"


def find_box(point: FloatArray, letters: int) -> FloatArray:
    """Left, bottom, right and top of a text below a point."""
    x, y = point
    half = letters * LETTER_IN / 2
    return np.array([x - half, y - LINE_IN - 0.02, x + half, y - 0.01])


def overlaps(box: FloatArray, others: FloatArray) -> bool:
    """Return whether a box of left, bottom, right and top overlaps one of (n, 4) others."""
    apart = (
        (others[:, LEFT] >= box[RIGHT])
        | (others[:, RIGHT] <= box[LEFT])
        | (others[:, BOTTOM] >= box[TOP])
        | (others[:, TOP] <= box[BOTTOM])
    )
    return not apart.all()
