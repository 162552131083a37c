"""Colours and files of all figures."""

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
"""Colours of devices or agents, in their order."""
WITHIN, CROSSING = "#bbbbbb", "#000000"
"""Colours of edges within a device, and between devices."""
GROUND = "#ffffff"
TEXT_AS_TEXT = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "placement_gym"}
"""Vector files hold letters, not outlines; equal figures make equal files."""


def save(figure: Figure, path: Path, follow: bool = False) -> None:
    """Write a figure as PNG, SVG or PDF, by the path's ending; a failure keeps an earlier file."""
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
    """Draw and write a figure; return a note if that failed, since results matter more."""
    try:
        save(draw(), path)
    except Exception as error:
        with suppress(OSError):  # an earlier picture shows other results
            path.unlink()
        return f"{path.name} could not be drawn: {error}"
    return ""
