"""Figures of comparisons, searches, and the fidelity of the twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator

from placement_gym.base import escape_figure_text, format_ms, interval
from placement_gym.view.figures.style import COLOURS, WITHIN

MAX_LINES = 8
"""Lines of a figure with a colour. Hand-tuned."""
REST = "the others"
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKERS = "osD^vPX*"
LOSS_PER_GAIN, SMALLEST_LOSS = 2.0, 0.25
"""Largest loss shown, relative to the largest gain, and its smallest value. Hand-tuned."""
MAX_PLAIN_RANGE = 2e3
"""Ratio of an axis's ends up to which it is numbered between powers of ten. Hand-tuned."""
WON, OTHER, INK = COLOURS[2], COLOURS[0], COLOURS[7]
"""Colours of bars that beat the best single device, of other bars, and of points and lines."""
LIMIT_DASHES: dict[str, Any] = {"color": INK, "ls": ":", "lw": 1.2}


def choose_looks(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Arguments of ``plot`` for each label: colours for the first eight, grey for the others."""
    looks = {
        label: {
            "label": escape_figure_text(label),
            "color": COLOURS[index],
            "ls": DASHES[index % len(DASHES)],
            "marker": MARKERS[index],
            "ms": 4.5,
            "markevery": (0.03 + 0.012 * index, 0.12),
            "lw": 1.5,
            "zorder": 3 + 0.1 * (MAX_LINES - index),
        }
        for index, label in enumerate(labels[:MAX_LINES])
    }
    grey = {"label": REST, "color": WITHIN, "lw": 0.8, "zorder": 1}
    return looks | dict.fromkeys(labels[MAX_LINES:], grey)


def add_legend(figure: Figure, axes: Axes) -> None:
    """Add a legend next to the axes; a name that several lines share appears once."""
    handles, names = axes.get_legend_handles_labels()
    first = {name: handles[names.index(name)] for name in names}
    figure.legend([*first.values()], [*first], loc="outside right upper", frameon=False, fontsize=8)


def draw_comparison(
    rows: Sequence[dict[str, Any]],
    title: str,
    limits: Mapping[str, float] | None = None,
    over_reference: bool = False,
) -> Figure:
    """Draw the speed-up of each agent's finalist over the best single device, and its uncertainty.

    A speed-up was measured in one interleaved run with its single device, so latencies of several
    runs are not compared. Large losses are cut, so gains stay readable.

    Args:
        rows: Result rows; those without a latency are left out.
        title: Heading of the figure.
        limits: Name -> speed-up that no placement exceeds, such as the optimum's.
        over_reference: Whether speed-ups are over the reference device, its limit ignored.
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
    # The axis holds every gain and limit, and losses as far as gains stay readable.
    furthest = max([1.0, *ends[:, 1], *(limits or {}).values()])
    span = max(LOSS_PER_GAIN * (furthest - 1.0), SMALLEST_LOSS)
    lower = min(1.0, float(ends[:, 0].min())) - 0.06 * span
    nearest = max(0.0, 1.0 - span, lower)
    room = max(furthest - nearest, SMALLEST_LOSS / 2)
    colours = [WON if yes else OTHER for yes in won]
    axes.barh(position, speedup - 1.0, left=1.0, color=colours, height=0.7)
    # A point that is cut off becomes an arrow at the edge.
    inside = speedup >= nearest
    axes.plot(speedup[inside], position[inside], "o", ms=4, color=INK)
    axes.plot(np.full((~inside).sum(), nearest), position[~inside], "<", ms=7, color=INK)
    errors = np.abs(ends.T - speedup)
    axes.errorbar(speedup, position, xerr=errors, fmt="none", ecolor=INK, capsize=3)
    axes.axvline(1.0, color=INK, lw=1.2)
    above = axes.get_xaxis_transform()
    for name, value in (limits or {}).items():
        axes.axvline(value, **LIMIT_DASHES)
        axes.text(value, 1.01, name, transform=above, size=8, ha="center", va="bottom")
    # Numbers at the right edge, where no bar covers them.
    at_edge = axes.get_yaxis_transform()
    for row, place in zip(measured, position.tolist(), strict=True):
        text = f"{row[key]:.3f} x, {format_ms(row['latency_ms'])} ms"
        axes.text(1.01, place, text, transform=at_edge, va="center", size=8)
    axes.set(
        yticks=position,
        yticklabels=[escape_figure_text(row["label"]) for row in measured],
        xlabel=f"speed-up over {base} (1)",
        xlim=(nearest, furthest + 0.05 * room),
        ylim=(len(measured) - 0.4, -0.6),
    )
    frame(axes, title, pad=16 if limits else None)
    if any(won):
        kinds = {"beats the best single device": WON}
        if sum(row[key] > 1.0 for row in measured) > sum(won):
            kinds["could not be decided"] = OTHER
        patches = [Patch(color=colour, label=kind) for kind, colour in kinds.items()]
        spot: dict[str, Any] = {"loc": "outside lower right", "ncols": 2}
        figure.legend(handles=patches, **spot, frameon=False, fontsize=8)
    return figure


def frame(axes: Axes, title: str, pad: float | None = None) -> None:
    """Write a title above the axes, and hide the lines at the top and on the right."""
    axes.set_title(escape_figure_text(title), fontsize=10, loc="left", pad=pad, wrap=True)
    axes.spines[["top", "right"]].set_visible(False)


def number_axis(axes: Axes) -> None:
    """Write plain numbers on a logarithmic axis."""
    low, high = axes.get_xlim()
    few = high <= MAX_PLAIN_RANGE * low
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")


def draw_best_so_far(
    rows: Sequence[dict[str, Any]], title: str, limits: Mapping[str, float] | None = None
) -> Figure:
    """Draw the best speed-up over the reference that each search had found, by evaluations.

    The most important rows come first; limits are speed-ups to compare with, such as the optimum's.
    """
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.add_subplot()
    searched = [row for row in rows if row["curve"]]
    budget = max([1, *(row["evaluations"] for row in searched)])
    looks = choose_looks(list(dict.fromkeys(row["label"] for row in searched)))
    for row in searched:
        evaluations, best = ([point[column] for point in row["curve"]] for column in (0, 2))
        steps = [*evaluations, budget], [*best, best[-1]]
        axes.plot(*steps, drawstyle="steps-post", **looks[row["label"]])
    for name, value in (limits or {}).items():
        axes.axhline(value, **LIMIT_DASHES)
        at_edge = axes.get_yaxis_transform()
        axes.text(1.0, value, f" {name}", transform=at_edge, size=8, va="center")
    axes.set(xlabel="evaluations", ylabel="best speed-up seen so far", xscale="log")
    number_axis(axes)
    frame(axes, title)
    add_legend(figure, axes)
    return figure


def draw_fidelity(document: Mapping[str, Any]) -> Figure:
    """Draw predicted and measured latencies of ``fidelity``, and the share of slow work."""
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes, plain = figure.subplots(1, 2)
    rows, twin, share = document["rows"], document["twin"], document["slow_share"]
    measured = np.array([row["measured_ms"] for row in rows])
    predicted = np.array([row["predicted_ms"] for row in rows])
    # Both axes have equal scales: the diagonal is a perfect prediction.
    both = np.concatenate([measured, predicted])
    ends = [both.min() * 0.95, both.max() * 1.05]
    axes.plot(ends, ends, color=WITHIN, lw=1, zorder=0)
    noise = np.array([interval(row["measured_ms"], row["noise"]) for row in rows]).T - measured
    looks: dict[str, Any] = {"fmt": "o", "ms": 4, "lw": 0.8, "color": COLOURS[0]}
    axes.errorbar(measured, predicted, xerr=np.abs(noise), **looks)
    axes.set(xlabel="measured, ms", ylabel="predicted by the twin, ms", xlim=ends, ylim=ends)
    axes.set_title(
        f"Spearman {twin['spearman']:.3f} ({twin['spearman_fastest_third']:.3f} in the fastest "
        f"third)\nmedian error {100 * twin['median_error']:.1f} %",
        fontsize=10,
        loc="left",
    )
    # Next to it a predictor without a twin, which the twin has to beat.
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
