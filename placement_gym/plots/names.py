"""Names of units in a picture, where there is room for them."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from placement_gym.arrays import FloatArray
from placement_gym.graph.operators import OpGraph
from placement_gym.plots.style import GROUND
from placement_gym.texts import escape_figure_text, make_printable

FONT_SIZE = 6.0
LETTER_IN, LINE_IN = 0.056, 0.1
"""Size of a letter, including a little room."""
SHORTEST, LONGEST = 6, 18
"""Letters of a name."""
WIDE_IN, FEW = 0.33, 40
"""Where layers are closer than this, only so many units with most work are named."""
BEHIND = {"facecolor": GROUND, "alpha": 0.75, "pad": 0.2, "linewidth": 0.0}
"""Keeps lines from running through a name."""
INCH = 72.0
"""Points of an inch, in which areas of circles are measured."""


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
    radius = np.sqrt(area / np.pi) / INCH
    boxes = np.concatenate([points - radius[:, None], points + radius[:, None]], axis=1)
    taken = np.zeros((0, 4))
    most = len(graph) if column_in >= WIDE_IN else FEW
    for unit in np.argsort(-graph.flops, kind="stable")[:most].tolist():
        name = make_printable(graph.names[unit])
        text = name if len(name) <= letters else f"…{name[1 - letters :]}"  # its end is its own
        x, y = points[unit] - (0.0, radius[unit])
        half = len(text) * LETTER_IN / 2
        box = np.array([x - half, y - LINE_IN - 0.02, x + half, y - 0.01])
        if overlaps(box, taken) or overlaps(box, boxes):
            continue
        taken = np.vstack([taken, box])
        shown = escape_figure_text(text)
        axes.text(x, y - 0.02, shown, size=FONT_SIZE, ha="center", va="top", bbox=BEHIND)


def overlaps(box: FloatArray, others: FloatArray) -> bool:
    """Whether a box of left, bottom, right and top overlaps one of (n, 4) others."""
    apart = (
        (others[:, 0] >= box[2])
        | (others[:, 2] <= box[0])
        | (others[:, 1] >= box[3])
        | (others[:, 3] <= box[1])
    )
    return not apart.all()
