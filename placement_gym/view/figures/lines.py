"""Styles of the lines of several agents: the first ones in colour, the rest in grey."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from placement_gym.view.figures.style import COLOURS, WITHIN

MOST_LINES = 8
REST = "the others"
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class Look:
    """A line of a figure.

    Attributes:
        rest: Whether it is one of the grey lines.
        line: Arguments of ``plot``.
    """

    rest: bool
    line: dict[str, Any] = field(default_factory=dict)


def choose_looks(labels: Sequence[str]) -> dict[str, Look]:
    """A colour, dashes and a marker for each of the first eight, grey for the others.

    Args:
        labels: Distinct, the most important first.
    """
    looks = {
        label: Look(
            False,
            {
                "color": COLOURS[index],
                "ls": DASHES[index % len(DASHES)],
                "marker": MARKERS[index],
                "ms": 4.5,
                "markevery": (0.03 + 0.012 * index, 0.12),
                "lw": 1.5,
                "zorder": 3 + 0.1 * (MOST_LINES - index),
            },
        )
        for index, label in enumerate(labels[:MOST_LINES])
    }
    grey = Look(True, {"color": WITHIN, "lw": 0.8, "zorder": 1})
    return looks | dict.fromkeys(labels[MOST_LINES:], grey)
