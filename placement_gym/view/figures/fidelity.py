"""The simulated twin against measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from placement_gym.base.texts import escape_figure_text
from placement_gym.view.figures.style import COLOURS


def draw_fidelity(document: Mapping[str, Any]) -> Figure:
    """Predicted over measured latency, and next to it the share of slow work over the same.

    Args:
        document: What ``deployment.fidelity.fidelity`` returns.
    """
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes, beside = figure.subplots(1, 2)
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
        xerr=measured * np.array([row["noise"] for row in rows]),
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
    beside.plot(measured, [row["slow_share"] for row in rows], "o", ms=4, color=COLOURS[1])
    beside.set(xlabel="measured, ms", ylabel="share of work on slower devices", ylim=(-0.03, 1.03))
    beside.set_title(
        f"Spearman {share['spearman']:.3f} ({share['spearman_fastest_third']:.3f})\n",
        fontsize=10,
        loc="left",
    )
    title = f"{document['model']} on {', '.join(document['devices'])}"
    figure.suptitle(escape_figure_text(title), fontsize=11)
    return figure
