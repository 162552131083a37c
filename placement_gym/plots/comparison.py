"""Agents side by side: the speed-up of each run's finalist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from placement_gym.plots.style import COLOURS
from placement_gym.texts import escape_figure_text


def draw_comparison(rows: Sequence[dict[str, Any]], title: str) -> Figure:
    """Speed-up of each agent's finalist over the best single device, with its uncertainty.

    Speed-ups are drawn, not latencies: each was taken in one interleaved run with the device it
    is compared with, latencies of different rows were not.

    Args:
        rows: Result rows; those without a latency are left out.
        title: Heading of the figure.
    """
    measured = [row for row in rows if row["latency_ms"] is not None]
    measured.sort(key=lambda row: -row["speedup_vs_best_single"])
    figure = Figure(figsize=(9, 1.6 + 0.36 * len(measured)), layout="constrained")
    axes = figure.add_subplot()
    position = np.arange(len(measured))
    speedup = np.array([row["speedup_vs_best_single"] for row in measured])
    noise = speedup * np.array([row["noise"] for row in measured])
    won = [row["beats_best_single"] == "yes" for row in measured]
    axes.barh(position, speedup, color=[COLOURS[2] if yes else COLOURS[0] for yes in won])
    axes.errorbar(speedup, position, xerr=noise, fmt="none", ecolor="black", capsize=3)
    axes.axvline(1.0, color=COLOURS[1], ls="--", lw=1)
    ends = speedup + noise
    for row, end, place in zip(measured, ends, position, strict=True):
        text = f"{row['latency_ms']:.2f} ms"
        axes.annotate(text, (end, place), (5, 0), textcoords="offset points", va="center", size=8)
    axes.set(yticks=position, yticklabels=[escape_figure_text(row["label"]) for row in measured])
    axes.set(xlabel="speed-up over the best single device", xlim=(0, float(ends.max()) * 1.15))
    axes.set_title(escape_figure_text(title), fontsize=10, loc="left")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    return figure
