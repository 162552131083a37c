"""Lines of figures that compare agents, and how well the simulated twin predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from placement_gym.base.ratios import interval
from placement_gym.base.texts import escape_figure_text
from placement_gym.view.figures.style import COLOURS, WITHIN

MOST_LINES = 8
REST = "the others"
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKERS = "osD^vPX*"
FEW_DECADES = 2e3


@dataclass(frozen=True)
class Look:
    """A line of a figure: whether it is one of the grey ones, and arguments of ``plot``."""

    rest: bool
    line: dict[str, Any] = field(default_factory=dict)


def choose_looks(labels: Sequence[str]) -> dict[str, Look]:
    """A colour, dashes and a marker for each of the first eight labels, grey for the others."""
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


def number_axis(axes: Axes) -> None:
    """Plain numbers on a logarithmic axis."""
    low, high = axes.get_xlim()
    few = high <= FEW_DECADES * low
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")


def draw_fidelity(document: Mapping[str, Any]) -> Figure:
    """Predicted over measured latency of ``deployment.fidelity``, and the share of slow work."""
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes, plain = figure.subplots(1, 2)
    rows, twin, share = document["rows"], document["twin"], document["slow_share"]
    measured = np.array([row["measured_ms"] for row in rows])
    predicted = np.array([row["predicted_ms"] for row in rows])
    # Equal scales of both axes: the diagonal is a perfect prediction.
    ends = [
        min(measured.min(), predicted.min()) * 0.95,
        max(measured.max(), predicted.max()) * 1.05,
    ]
    axes.plot(ends, ends, color="#bbbbbb", lw=1, zorder=0)
    axes.errorbar(
        measured,
        predicted,
        xerr=np.abs(
            np.array([interval(row["measured_ms"], row["noise"]) for row in rows]).T - measured
        ),
        fmt="o",
        ms=4,
        lw=0.8,
        color=COLOURS[0],
    )
    axes.set(xlabel="measured, ms", ylabel="predicted by the twin, ms", xlim=ends, ylim=ends)
    axes.set_title(
        f"Spearman {twin['spearman']:.3f} ({twin['spearman_fastest_third']:.3f} in the fastest "
        f"third)\nmedian error {100 * twin['median_error']:.1f} %",
        fontsize=10,
        loc="left",
    )
    # Next to it what no twin is needed for: a prediction has to agree better than this.
    plain.plot(measured, [row["slow_share"] for row in rows], "o", ms=4, color=COLOURS[1])
    plain.set(xlabel="measured, ms", ylabel="share of work on slower devices", ylim=(-0.03, 1.03))
    plain.set_title(
        f"Spearman {share['spearman']:.3f} ({share['spearman_fastest_third']:.3f})\n",
        fontsize=10,
        loc="left",
    )
    title = f"{document['model']} on {', '.join(document['devices'])}"
    figure.suptitle(escape_figure_text(title), fontsize=11)
    return figure
