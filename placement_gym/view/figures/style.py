"""Style of all figures: their colours, and the settings of the files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from placement_gym.base import UInt8, replace_file

COLOURS = (
    *("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#222222"),
    *("#99ddff", "#ffaabb", "#aaaa00", "#dddddd", "#ee8866", "#004488", "#bbcc33", "#997700"),
)
"""One colour per device or agent, in the order they are listed."""
WITHIN, CROSSING = "#bbbbbb", "#000000"
"""Edges within one device, and edges that change device."""
GROUND = "#ffffff"
TEXT_AS_TEXT = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "placement_gym"}
"""Vector files hold letters, not their outlines; the same figure makes the same file."""


def save(figure: Figure, path: Path, follow: bool = False) -> None:
    """Write a figure as PNG, SVG or PDF, as the path ends; a failure leaves the earlier file."""
    stamp = {"Date": None} if path.suffix == ".svg" else None
    with (
        replace_file(path, follow) as temporary,
        rc_context(TEXT_AS_TEXT),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # names in other scripts
        figure.savefig(temporary, dpi=150, metadata=stamp)


def render_pixels(figure: Figure) -> UInt8:
    """(height, width, 3) pixels of a figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def draw_if_possible(draw: Callable[[], Figure], path: Path) -> str:
    """Draw a figure and write it; a note if that failed, as a picture must not cost a result."""
    try:
        save(draw(), path)
    except Exception as error:
        with suppress(OSError):  # an earlier picture is of other results
            path.unlink()
        return f"{path.name} could not be drawn: {error}"
    return ""
