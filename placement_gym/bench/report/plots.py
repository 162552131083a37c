"""Pictures of a study: intervals, performance profiles and learning curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from placement_gym.base import FloatArray, escape_figure_text
from placement_gym.bench.report.stats import bootstrap_curve, performance_profile
from placement_gym.view.figures import COLOURS, REST, WITHIN, Look, choose_looks, number_axis

if TYPE_CHECKING:
    from placement_gym.bench.report.scores import StudyResults

N_CURVE_POINTS = 200
"""Points of a curve. Hand-tuned."""
BAND: dict[str, Any] = {"alpha": 0.13, "lw": 0.0}


def rank_agents(results: StudyResults) -> list[str]:
    """Agents with at least one score, best first."""
    return [agent for agent in results.ranking if (results.scores(agent) > 0).any()]


def draw_intervals(results: StudyResults) -> Figure:
    """Mean and interquartile mean scores of finalists, and of what is predicted after learning."""
    agents = rank_agents(results)
    figure = Figure(figsize=(9, 1.5 + 0.28 * len(agents)), layout="constrained")
    axes = figure.add_subplot()
    fields = {"finalist": "latency_ms", "greedy": "greedy_latency_ms"}
    for shift, (label, field) in enumerate(fields.items()):
        height = np.arange(len(agents)) + 0.25 * shift
        value, low, high = np.array([results.estimates[agent, field] for agent in agents]).T
        axes.errorbar(
            value,
            height,
            xerr=[value - low, high - value],
            fmt="o" if not shift else "x",
            ms=5,
            capsize=3,
            color=COLOURS[shift],
            label=f"{label}, IQM",
        )
        means = [results.means[agent, field] for agent in agents]
        axes.plot(
            means, height, "d", ms=6, mfc="none", color=COLOURS[shift], label=f"{label}, mean"
        )
    axes.set(
        yticks=np.arange(len(agents)),
        yticklabels=[escape_figure_text(agent) for agent in agents],
        xlabel="score (1 is the best known)",
    )
    axes.invert_yaxis()
    axes.grid(axis="x", color=WITHIN, alpha=0.4, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def draw_profiles(results: StudyResults) -> Figure:
    """Share of an agent's runs with at least each score, with its 95 % interval."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    agents = rank_agents(results)
    scores = np.concatenate([results.scores(agent) for agent in agents])
    thresholds = np.linspace(max(scores[scores > 0].min() - 0.02, 1e-3), 1.0, N_CURVE_POINTS)
    for agent, look in choose_looks(agents).items():
        mine = results.scores(agent)
        played = ~np.isnan(mine)
        is_reached = (mine[played][:, None] >= thresholds).astype(np.float64)
        problem = np.broadcast_to(np.arange(mine.shape[1]), mine.shape)[played]
        _, low, high = bootstrap_curve(is_reached, problem)
        profile = performance_profile(mine, thresholds)
        draw_line(axes, thresholds, (profile, low, high), agent, look)
    axes.set(xlabel="score (1 is the best known)", ylabel="share of runs", ylim=(-0.02, 1.02))
    axes.spines[["top", "right"]].set_visible(False)
    add_legend(figure, axes)
    return figure


def draw_curves(results: StudyResults) -> Figure:
    """Mean best score so far with its 95 % interval, against evaluations and against seconds."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    agents = rank_agents(results)
    budget = max(row["budget"] for row in results.rows)
    times = [point[1] for row in results.rows for point in row["curve"] if point[1] > 0]
    first_s = min(times, default=1e-3)
    last_s = max(max(row["wall_s"] for row in results.rows), 2 * first_s)
    grids = (np.geomspace(1, budget, N_CURVE_POINTS), np.geomspace(first_s, last_s, N_CURVE_POINTS))
    sides = figure.subplots(1, 2, sharey=True)
    for axis, (axes, grid, label) in enumerate(
        zip(sides, grids, ("evaluations", "seconds"), strict=True)
    ):
        for agent, look in choose_looks(agents).items():
            rows = results.rows_of(agent)
            problem = np.array([results.problems.index(row["problem"]) for row in rows])
            curve = bootstrap_curve(results.curve(agent, grid, axis), problem)
            draw_line(axes, grid, curve, agent, look)
        axes.set(xscale="log", xlabel=label)
        number_axis(axes)
        axes.spines[["top", "right"]].set_visible(False)
    sides[0].set_ylabel("best score so far")
    add_legend(figure, sides[0])
    return figure


def draw_line(
    axes: Axes,
    x: FloatArray,
    curve: tuple[FloatArray, FloatArray, FloatArray],
    agent: str,
    look: Look,
) -> None:
    """Draw an agent's line, with its interval if it is one of the coloured ones.

    Args:
        axes: Where.
        x: (n,) positions.
        curve: (n,) values, lower and upper ends of their intervals.
        agent: Its label.
        look: Of the line.
    """
    value, low, high = curve
    name = REST if look.rest else escape_figure_text(agent)
    axes.plot(x, value, label=name, **look.line)
    if not look.rest:
        colour = look.line["color"]
        axes.fill_between(x, low, high, color=colour, **BAND)


def add_legend(figure: Figure, axes: Axes) -> None:
    """Name the lines of one part of a figure next to it, the grey ones once."""
    handles, names = axes.get_legend_handles_labels()
    first = {name: names.index(name) for name in names}
    visible = [handles[index] for index in first.values()]
    figure.legend(visible, [*first], loc="outside right upper", frameon=False, fontsize=8)
