"""Figures as SVG within a page: small, with ids of their own, and readable on light and dark."""

from __future__ import annotations

import html
import re

from placement_gym.base.texts import make_printable
from placement_gym.view.figures.style import COLOURS, CROSSING, GROUND, WITHIN

VARIABLES = {GROUND: "ground", CROSSING: "ink", WITHIN: "faint", COLOURS[7]: "ink"}
"""Colours that follow the page's theme, by the name of its variable."""
METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
ID = re.compile(r'(<[^<>]*\s)id="')
REFERENCE = re.compile(r'(url\(#|href="#)')
PATH = re.compile(r'\bd="([^"]*)"')
DIGITS = re.compile(r"(\.\d\d)\d+")
STYLE = re.compile(r'style="[^"]*"')


def make_inline(svg: str, prefix: str, caption: str) -> str:
    """A file that matplotlib has written as an element of a page.

    Args:
        svg: The file.
        prefix: Begins its ids, so that they differ from those of other pictures.
        caption: For readers that do not see it.
    """
    drawing = METADATA.sub("", svg[svg.index("<svg") :])
    drawing = ID.sub(rf'\1id="{prefix}', drawing)
    drawing = REFERENCE.sub(rf"\1{prefix}", drawing)
    drawing = PATH.sub(lambda found: DIGITS.sub(r"\1", found[0]).replace("\n", " "), drawing)
    drawing = STYLE.sub(lambda found: follow_theme(found[0]), drawing)
    head, rest = drawing.split(">", 1)
    head = re.sub(r'\s(height|xmlns:xlink|xmlns|version)="[^"]*"', "", head)
    label = html.escape(make_printable(caption))
    return f'{head} role="img" aria-label="{label}">{rest}'


def follow_theme(style: str) -> str:
    """A style whose colours are those of the page where they have no meaning of their own."""
    for colour, variable in VARIABLES.items():
        style = style.replace(colour, f"var(--{variable})")
    return style
