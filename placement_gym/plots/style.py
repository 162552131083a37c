"""What all figures share: the colours, and how a figure is written."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from placement_gym.files import replace_file

COLOURS = (
    *("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#222222"),
    *("#99ddff", "#ffaabb", "#aaaa00", "#dddddd", "#ee8866", "#004488", "#bbcc33", "#997700"),
)
"""One colour per device or agent, in the order they are listed."""
WITHIN, CROSSING = "#bbbbbb", "#000000"
"""Edges within one device, and edges that change device."""


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG.

    Raises:
        FileError: It cannot be written; the file that was there is unchanged.
    """
    with replace_file(path) as new:
        figure.savefig(new, dpi=150)
