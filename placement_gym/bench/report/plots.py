"""Pictures of a study: intervals, performance profiles and learning curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from placement_gym.bench.report.stats import performance_profile
from placement_gym.plots.style import COLOURS
from placement_gym.texts import escape_figure_text

if TYPE_CHECKING:
    from placement_gym.bench.report.scores import StudyResults

POINTS = 200
DASHES = ("-", "--", ":", "-.")
Look = dict[str, str]


def choose_looks(agents: list[str]) -> dict[str, Look]:
    """A colour and a dash for each agent."""
    n = len(COLOURS) // 2
    return {
        agent: {"color": COLOURS[i % n], "ls": DASHES[i // n % len(DASHES)]}
        for i, agent in enumerate(agents)
    }


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
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def draw_profiles(results: StudyResults) -> Figure:
    """Share of an agent's runs with at least each score."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    agents = rank_agents(results)
    scores = np.concatenate([results.scores(agent) for agent in agents])
    thresholds = np.linspace(max(scores[scores > 0].min() - 0.02, 1e-3), 1.0, POINTS)
    for agent, look in choose_looks(agents).items():
        profile = performance_profile(results.scores(agent), thresholds)
        name = escape_figure_text(agent)
        axes.plot(thresholds, profile, drawstyle="steps-pre", label=name, lw=1.4, **look)  # type: ignore[arg-type]
    axes.set(xlabel="score", ylabel="share of runs", ylim=(-0.02, 1.02))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def draw_curves(results: StudyResults) -> Figure:
    """Mean best score so far, against evaluations and against seconds."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    agents = rank_agents(results)
    budget = max(row["budget"] for row in results.rows)
    times = [point[1] for row in results.rows for point in row["curve"] if point[1] > 0]
    first_s = min(times, default=1e-3)
    last_s = max(max(row["wall_s"] for row in results.rows), 2 * first_s)
    grids = (np.geomspace(1, budget, POINTS), np.geomspace(first_s, last_s, POINTS))
    sides = figure.subplots(1, 2, sharey=True)
    for axis, (axes, grid, label) in enumerate(
        zip(sides, grids, ("evaluations", "seconds"), strict=True)
    ):
        for agent, look in choose_looks(agents).items():
            curves = results.curve(agent, grid, axis)
            name = None if axis else escape_figure_text(agent)
            axes.plot(grid, curves.mean(axis=0), label=name, lw=1.4, **look)
        axes.set(xscale="log", xlabel=label)
        axes.spines[["top", "right"]].set_visible(False)
    sides[0].set_ylabel("best score so far")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure
