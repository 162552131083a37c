"""Results as figures: agents side by side, searches, and the simulated twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator

from placement_gym.base import escape_figure_text, format_ms, interval
from placement_gym.view.figures.style import COLOURS, WITHIN

MAX_LINES = 8
"""Lines of a figure. Hand-tuned."""
REST = "the others"
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKERS = "osD^vPX*"
LOSS_PER_GAIN, SMALLEST_LOSS = 2.0, 0.25
"""Extent of losses that are shown: relative to the largest gain, and at least."""
MAX_PLAIN_RANGE = 2e3
"""Ratio of an axis's ends up to which it has numbers between powers of ten. Hand-tuned."""
LIMIT_DASHES: dict[str, Any] = {"color": COLOURS[7], "ls": ":", "lw": 1.2}


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
                "zorder": 3 + 0.1 * (MAX_LINES - index),
            },
        )
        for index, label in enumerate(labels[:MAX_LINES])
    }
    grey = Look(True, {"color": WITHIN, "lw": 0.8, "zorder": 1})
    return looks | dict.fromkeys(labels[MAX_LINES:], grey)


def draw_comparison(
    rows: Sequence[dict[str, Any]],
    title: str,
    limits: Mapping[str, float] | None = None,
    over_reference: bool = False,
) -> Figure:
    """Speed-up of each agent's finalist over the best single device, with its uncertainty.

    Bars begin at the best single device: what is right of it is gained, what is left of it lost.
    Speed-ups are drawn, not latencies: each was taken in one interleaved run with the device it
    is compared with, latencies of different rows were not. Large losses are cut, or gains could
    not be seen next to them.

    Args:
        rows: Result rows; those without a latency are left out.
        title: Heading of the figure.
        limits: Name -> speed-up over the same of what no placement exceeds, such as the optimum;
            lines.
        over_reference: Whether bars are relative to the reference device, its limit ignored, as
            where no single device holds the model.
    """
    key = "speedup" if over_reference else "speedup_vs_best_single"
    base = "the reference device, its limit ignored" if over_reference else "the best single device"
    # The fastest on top.
    measured = [row for row in rows if row["latency_ms"] is not None]
    measured.sort(key=lambda row: -row[key])
    figure = Figure(figsize=(9, 1.7 + 0.36 * len(measured)), layout="constrained")
    axes = figure.add_subplot()
    position = np.arange(len(measured))
    speedup = np.array([row[key] for row in measured])
    ends = np.array([interval(row[key], row["noise"]) for row in measured]).reshape(-1, 2)
    won = [not over_reference and row["beats_best_single"] == "yes" for row in measured]
    colours = [COLOURS[2] if yes else COLOURS[0] for yes in won]
    # The axis holds every gain and limit, but of losses only as much as leaves gains readable.
    furthest = max([1.0, *ends[:, 1], *(limits or {}).values()])
    span = max(LOSS_PER_GAIN * (furthest - 1.0), SMALLEST_LOSS)
    lower = min(1.0, float(ends[:, 0].min())) - 0.06 * span
    nearest = max(0.0, 1.0 - span, lower)
    room = max(furthest - nearest, SMALLEST_LOSS / 2)
    axes.barh(position, speedup - 1.0, left=1.0, color=colours, height=0.7)
    # What is cut off gets an arrow at the edge instead of a point.
    inside = speedup >= nearest
    axes.plot(speedup[inside], position[inside], "o", ms=4, color=COLOURS[7])
    axes.plot(np.full((~inside).sum(), nearest), position[~inside], "<", ms=7, color=COLOURS[7])
    axes.errorbar(
        speedup, position, xerr=np.abs(ends.T - speedup), fmt="none", ecolor=COLOURS[7], capsize=3
    )
    axes.axvline(1.0, color=COLOURS[7], lw=1.2)
    draw_limits(axes, limits or {})
    # Figures at the right edge, where no bar covers them.
    at_edge = axes.get_yaxis_transform()
    for row, place in zip(measured, position.tolist(), strict=True):
        text = f"{row[key]:.3f} x, {format_ms(row['latency_ms'])} ms"
        axes.text(1.01, place, text, transform=at_edge, va="center", size=8)
    axes.set(yticks=position, yticklabels=[escape_figure_text(row["label"]) for row in measured])
    axes.set(
        xlabel=f"speed-up over {base} (1)",
        xlim=(nearest, furthest + 0.05 * room),
        ylim=(len(measured) - 0.4, -0.6),
    )
    pad = 16 if limits else None
    axes.set_title(escape_figure_text(title), fontsize=10, loc="left", pad=pad, wrap=True)
    axes.spines[["top", "right"]].set_visible(False)
    if any(won):
        gained = [row[key] > 1.0 for row in measured]
        add_colour_key(figure, sum(gained) > sum(won))
    return figure


def add_colour_key(figure: Figure, undecided: bool) -> None:
    """Add a key of the bars' colours, where some agent has won."""
    kinds = {"beats the best single device": COLOURS[2], "could not be decided": COLOURS[0]}
    patches = [Patch(color=colour, label=kind) for kind, colour in kinds.items()]
    figure.legend(
        handles=patches if undecided else patches[:1],
        loc="outside lower right",
        ncols=2,
        frameon=False,
        fontsize=8,
    )


def draw_limits(axes: Axes, limits: Mapping[str, float]) -> None:
    """A line and a name for each speed-up that no placement exceeds."""
    for name, value in limits.items():
        axes.axvline(value, **LIMIT_DASHES)
        above = axes.get_xaxis_transform()
        axes.text(value, 1.01, name, transform=above, size=8, ha="center", va="bottom")


def number_axis(axes: Axes) -> None:
    """Plain numbers on a logarithmic axis."""
    low, high = axes.get_xlim()
    few = high <= MAX_PLAIN_RANGE * low
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")


def draw_best_so_far(
    rows: Sequence[dict[str, Any]], title: str, limits: Mapping[str, float] | None = None
) -> Figure:
    """The best speed-up over the reference that each search had seen, by evaluations.

    Args:
        rows: Result rows with their curves, the most important first; a label's runs look alike.
        title: Heading of the figure.
        limits: Name -> speed-up over the reference to compare with, as of the optimum.
    """
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.add_subplot()
    searched = [row for row in rows if row["curve"]]
    budget = max([1, *(row["evaluations"] for row in searched)])
    looks = choose_looks(list(dict.fromkeys(row["label"] for row in searched)))
    labels = set[str]()
    for row in searched:
        label = row["label"]
        evaluations, best = ([point[column] for point in row["curve"]] for column in (0, 2))
        name = REST if looks[label].rest else escape_figure_text(label)
        axes.plot(
            [*evaluations, budget],
            [*best, best[-1]],
            drawstyle="steps-post",
            label=None if name in labels else name,
            **looks[label].line,
        )
        labels.add(name)
    for name, value in (limits or {}).items():
        axes.axhline(value, **LIMIT_DASHES)
        at_edge = axes.get_yaxis_transform()
        axes.text(1.0, value, f" {name}", transform=at_edge, size=8, va="center")
    axes.set(xlabel="evaluations", ylabel="best speed-up seen so far", xscale="log")
    number_axis(axes)
    axes.set_title(escape_figure_text(title), fontsize=10, loc="left", wrap=True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def draw_fidelity(document: Mapping[str, Any]) -> Figure:
    """Predicted over measured latency of ``fidelity``, and the share of slow work."""
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
    figure.suptitle(escape_figure_text(title), fontsize=11, wrap=True)
    return figure
