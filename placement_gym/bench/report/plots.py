"""Pictures of studies and comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from placement_gym.base import FloatArray, escape_figure_text
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.report.stats import Curve, bootstrap_curve, performance_profile
from placement_gym.bench.run import SINGLE_DEVICE, BenchEnv, Json
from placement_gym.problem import parse_assignment
from placement_gym.view import figures
from placement_gym.view.figures import (
    COLOURS,
    REST,
    WITHIN,
    add_legend,
    choose_looks,
    draw_best_so_far,
    draw_comparison,
    draw_placement,
    number_axis,
)

N_CURVE_POINTS = 200
BAND: dict[str, Any] = {"alpha": 0.13, "lw": 0.0}


def rank_agents(results: StudyResults) -> list[str]:
    """Agents with a score, best first."""
    return [agent for agent in results.ranking if (results.scores(agent) > 0).any()]


def draw_intervals(results: StudyResults) -> Figure:
    """Mean and interquartile mean scores of finalists, and of greedy placements."""
    agents = rank_agents(results)
    figure = Figure(figsize=(9, 1.5 + 0.28 * len(agents)), layout="constrained")
    axes = figure.add_subplot()
    fields = {"finalist": "latency_ms", "greedy": "greedy_latency_ms"}
    for shift, (label, field) in enumerate(fields.items()):
        height = np.arange(len(agents)) + 0.25 * shift
        value, low, high = np.array([results.estimates[agent, field] for agent in agents]).T
        bars: dict[str, Any] = {"fmt": "ox"[shift], "ms": 5, "capsize": 3, "color": COLOURS[shift]}
        ends = [value - low, high - value]
        axes.errorbar(value, height, xerr=ends, label=f"{label}, IQM", **bars)
        means = [results.means[agent, field] for agent in agents]
        name, colour = f"{label}, mean", COLOURS[shift]
        axes.plot(means, height, "d", ms=6, mfc="none", color=colour, label=name)
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
    """Share of each agent's runs with at least a score, with its 95 % interval."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    agents = rank_agents(results)
    scores = np.concatenate([results.scores(agent) for agent in agents])
    thresholds = np.linspace(max(scores[scores > 0].min() - 0.02, 1e-3), 1.0, N_CURVE_POINTS)
    for agent, look in choose_looks(agents).items():
        profile = performance_profile(results.scores(agent), thresholds)
        draw_line(axes, thresholds, profile, look)
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
            draw_line(axes, grid, curve, look)
        axes.set(xscale="log", xlabel=label)
        number_axis(axes)
        axes.spines[["top", "right"]].set_visible(False)
    sides[0].set_ylabel("best score so far")
    add_legend(figure, sides[0])
    return figure


def draw_line(axes: Axes, x: FloatArray, curve: Curve, look: Mapping[str, Any]) -> None:
    value, low, high = curve
    axes.plot(x, value, **look)
    if look["label"] != REST:
        axes.fill_between(x, low, high, color=look["color"], **BAND)


def draw_runs(document: Mapping[str, Any], title: str, folder: Path) -> Iterator[str]:
    """Draw a comparison's runs and searches, if a run succeeded; yield why one is not drawn."""
    rows, reference_ms = document["rows"], document["reference_ms"]
    if not any(row["latency_ms"] for row in rows):
        return
    alone_ms = document["best_single_ms"]
    over = list_limits(document, alone_ms or reference_ms)
    bars = partial(draw_comparison, name_seeds(rows), title, over, not alone_ms)
    yield figures.draw_if_possible(bars, folder / "comparison.png")
    searched = [row for row in rows if row["agent"] != SINGLE_DEVICE]
    searched.sort(key=lambda row: -(row["speedup"] or 0.0))
    limits = list_limits(document, reference_ms)
    if alone_ms and reference_ms / alone_ms < 0.98 * min([*limits.values(), np.inf]):
        limits["best single device"] = reference_ms / alone_ms
    if any(row["curve"] for row in searched):
        curves = partial(draw_best_so_far, searched, title, limits)
        yield figures.draw_if_possible(curves, folder / "best-so-far.png")


def list_limits(document: Mapping[str, Any], base_ms: float) -> dict[str, float]:
    """The largest possible speed-up over a latency, by the optimum or the bound."""
    for name in ("optimum", "bound"):
        if limit_ms := document[f"{name}_ms"]:
            return {name: base_ms / limit_ms}
    return {}


def name_seeds(rows: Sequence[Json]) -> list[Json]:
    """Add the seed to the labels of agents that have several."""
    labels = [row["label"] for row in rows]
    several = {label for label in labels if labels.count(label) > 1}
    return [
        row | {"label": f"{row['label']}, seed {row['seed']}"} if row["label"] in several else row
        for row in rows
    ]


def draw_finalist(bench_env: BenchEnv, row: Json) -> Figure:
    problem, result = bench_env.base.problem, "failed"
    if row["latency_ms"] is not None:
        result = f"{row['latency_ms']:.4g} ms"
        if bench_env.one_device_holds_the_model:
            result = f"{row['speedup_vs_best_single']:.3f} x the best single device"
    assignment = parse_assignment(row["placement"], problem)
    return draw_placement(problem, assignment, f"{row['model']}, {row['label']}: {result}")
