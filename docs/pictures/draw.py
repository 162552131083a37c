"""Draws the pictures of the documents: ``python docs/pictures/draw.py``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
from episode import draw_episode
from graphs import draw_edges, spread_layers
from matplotlib.figure import Figure

import placement_gym
from placement_gym.bench.run import load_runs
from placement_gym.view import assign_layers
from placement_gym.view.figures import COLOURS

FOLDER = Path(__file__).parent
PAPER = FOLDER.parent / "results" / "paper" / "results.jsonl.xz"
BLUE, RED, GREEN, GREY = *COLOURS[:3], "#999999"
MEASURED = FOLDER.parent / "results" / "measured-rows.jsonl"
SHOWN = {
    "single-device": "best single device",
    "agents.stock:ppo": "PPO of Stable-Baselines3",
    "placeto": "Placeto",
    "random-blocks": "random blocks",
    "hsdag": "HSDAG",
    "prefix": "best prefix",
    "milp": "exact solution of a profile",
    "greedy": "greedy on a profile",
    "search": "search on a profile",
    "rnn": "RNN placer",
    "annealing": "annealing",
}
"""Label of runs -> its name in the picture."""
LEARNED = ("PPO of Stable-Baselines3", "Placeto", "HSDAG", "RNN placer")
MODEL, DEVICES = "inception", "hsdag-paper"
CPU_MS = 12.8
"""Of Inception-V3 on the CPU of ``hsdag-paper``, which is calibrated to it."""

WIDE, NARROW = 10.0, 4.6
"""Widths in inches, for a page and for a telephone."""


def save(figure: Figure, name: str) -> None:
    """Save a picture under its name, its narrow form under NAME-narrow."""
    form = "-narrow" if figure.get_figwidth() == NARROW else ""
    figure.savefig(FOLDER / f"{name}{form}.svg", metadata={"Date": None}, facecolor="white")


def load_latencies() -> dict[str, float]:
    """Label -> median latency of Inception-V3's runs in the published study ``paper``, ms."""
    rows = [row for row in load_runs(PAPER) if row["model"] == MODEL and not row["error"]]
    labels = dict.fromkeys(row["label"] for row in rows)
    return {label: median(r["latency_ms"] for r in rows if r["label"] == label) for label in labels}


def draw_overview(width: float) -> None:
    """README: the optimal placement of Inception-V3, and what other choices cost."""
    env = gym.make("DevicePlacementSim-v0", model=MODEL, devices=DEVICES)
    base: Any = placement_gym.placement_env(env)
    saved = next(
        row
        for row in load_runs(PAPER)
        if row["model"] == MODEL and row["label"] == "min-cut" and not row["error"]
    )
    placement = placement_gym.Placement.from_assignment(base.problem, base.problem.single(0)).units
    assignment = np.array(
        [base.problem.device_names.index(saved["placement"][unit]) for unit in placement]
    )
    figure = Figure(figsize=(width, 4.4 if width == WIDE else 6.0), layout="constrained")
    graph, bars = figure.subplots(2, 1, height_ratios=[1.15, 1])
    title = "Inception-V3 on a simulated CPU and GPU: the fastest placement"
    draw_graph(graph, base.problem, assignment, title)
    draw_bars(bars, load_latencies(), names_above=width == NARROW)
    save(figure, "overview")


def draw_graph(axes: Any, problem: Any, assignment: Any, title: str) -> None:
    units = problem.units.quotient
    across = assign_layers(units)
    down = spread_layers(across)
    axes.add_collection(draw_edges(units.edge_index, across, down, assignment))
    area = 12 + 90 * np.sqrt(units.flops / units.flops.max())
    for index, name in enumerate(problem.device_names):
        here = assignment == index
        label = f"{name}: {here.sum()} units"
        axes.scatter(across[here], down[here], area[here], COLOURS[index], label=label, zorder=2)
    axes.set_title(title, loc="left", fontsize=10, wrap=True)
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 0.0), frameon=False, ncols=2)
    axes.set_axis_off()


def draw_bars(axes: Any, latencies: dict[str, float], names_above: bool) -> None:
    shown = {
        "CPU alone": CPU_MS,
        "GPU alone": latencies["single-device"],
        "best of 500 random placements": latencies["random"],
        "best prefix": latencies["prefix"],
        "HSDAG, 500 evaluations": latencies["hsdag"],
        "optimum, proven by a minimum cut": latencies["min-cut"],
    }
    colours = [BLUE, RED, GREY, GREY, GREY, GREEN]
    height = 0.45 if names_above else 0.7
    bars = axes.barh(list(shown), list(shown.values()), color=colours, height=height)
    axes.bar_label(bars, [f"{value:.2f} ms" for value in shown.values()], padding=4)
    if names_above:
        for index, name in enumerate(shown):
            axes.text(0, index - 0.28, name, va="bottom")
        axes.set_yticks([])
    axes.invert_yaxis()
    axes.set_xlim(0, 15)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(left=False, bottom=False, labelbottom=False)


def draw_measured(width: float) -> None:
    """README: a placement of ResNet-50 that was measured, and what each agent found."""
    rows = [
        row
        for row in load_runs(MEASURED)
        if row["model"] == "resnet" and len(row["devices"]) == 2 and row["label"] in SHOWN
    ]
    speedups = {
        name: median(r["speedup_vs_best_single"] for r in rows if r["label"] == label)
        for label, name in SHOWN.items()
    }
    best = max(rows, key=lambda row: float(row["speedup_vs_best_single"]))
    env = gym.make("DevicePlacementSim-v0", model="resnet", devices=best["devices"])
    problem: Any = placement_gym.placement_env(env).problem
    names = placement_gym.Placement.from_assignment(problem, problem.single(0)).units
    assignment = np.array([problem.device_names.index(best["placement"][unit]) for unit in names])
    figure = Figure(figsize=(width, 4.8 if width == WIDE else 6.4), layout="constrained")
    graph, bars = figure.subplots(2, 1, height_ratios=[1, 1.5])
    draw_graph(graph, problem, assignment, "ResNet-50 on two devices: the fastest placement found")
    draw_speedups(bars, dict(sorted(speedups.items(), key=lambda one: one[1])), width == NARROW)
    save(figure, "measured")


def draw_speedups(axes: Any, speedups: dict[str, float], names_above: bool) -> None:
    colours = [GREEN if name in LEARNED else GREY for name in speedups]
    height = 0.45 if names_above else 0.7
    bars = axes.barh(list(speedups), list(speedups.values()), color=colours, height=height)
    axes.bar_label(bars, [f"{value:.2f} x" for value in speedups.values()], padding=4)
    if names_above:
        for index, name in enumerate(speedups):
            axes.text(0, index - 0.28, name, va="bottom", fontsize=8)
        axes.set_yticks([])
    axes.set_title("speed-up over the best single device, measured; learned agents in green",
                   loc="left", fontsize=10, wrap=True)  # fmt: skip
    axes.invert_yaxis()
    axes.set_xlim(0, 1.9)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(left=False, bottom=False, labelbottom=False)


def draw_schedules(width: float) -> None:
    """One placement of two branches: as HETERO runs it, and if devices overlapped."""
    figure = Figure(figsize=(width, 3.2), layout="constrained")
    both: Sequence[Any] = figure.subplots(2, 1, sharex=True)
    titles = {"serial": "as HETERO runs it: one submodel after another",
              "event": "if devices worked at the same time"}  # fmt: skip
    for axes, (schedule, title) in zip(both, titles.items(), strict=True):
        env = gym.make("DevicePlacementSim-v0", model=MODEL, devices="cpu+2dgpu",
                       schedule=schedule)  # fmt: skip
        base: Any = placement_gym.placement_env(env)
        problem = base.problem
        graph = problem.units.quotient
        assignment = 1 + (spread_layers(assign_layers(graph)) > 0).astype(np.int64)
        latency_ms, start, finish = base.backend.schedule(assignment)
        device = assignment[problem.units.of_operator]
        for index, name in ((1, "GPU.0"), (2, "GPU.1")):
            here = (device == index) & (finish > start)
            axes.barh(np.full(here.sum(), name), (finish - start)[here], left=start[here],
                      color=COLOURS[index], height=0.6)  # fmt: skip
        axes.axvline(latency_ms, color="black", linewidth=1)
        axes.text(latency_ms, 0.5, f" {latency_ms:.2f} ms", va="center")
        axes.set_title(title, loc="left", fontsize=9)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    both[1].set_xlabel("ms since the input arrived")
    save(figure, "schedules")


def draw_gap(width: float) -> None:
    """Draw an optimum, and the gap that a bound leaves open."""
    figure = Figure(figsize=(width, 2.9), layout="constrained")
    proven, bounded = figure.subplots(2, 1)
    latencies = load_latencies()
    found = [latencies[name] for name in ("hsdag", "random-blocks", "prefix", "heft")]
    single = latencies["single-device"]
    draw_line(proven, "the optimum is proven", latencies["min-cut"], found, single, "optimum")
    draw_line(bounded, "only a bound is known (a sketch)", 9.2, found, single, "bound")
    save(figure, "gap")


def draw_line(axes: Any, title: str, least: float, found: Any, single: float, name: str) -> None:
    best = min(found)
    axes.set_xlim(8.4, 13.2)
    axes.set_ylim(-1.0, 1.6)
    axes.axvspan(8.4, least, color="#dddddd", linewidth=0)
    axes.text(8.45, 0.0, "no\nplacement\nis here", va="center", fontsize=8)
    if name == "bound":
        axes.axvspan(least, best, color=GREEN, alpha=0.2, linewidth=0)
        axes.text((least + best) / 2, 1.15, "unknown", ha="center", fontsize=8)
    axes.axvline(least, color="black", linewidth=1.5)
    axes.text(least, 1.15, f"{name} ", ha="right", fontsize=8)
    axes.scatter(found, [0] * len(found), 50, GREEN, zorder=2)
    axes.scatter([single], [0], 60, RED, marker="s", zorder=2)
    axes.text(single, 0.45, "best single device", ha="center", fontsize=8)
    axes.text(best + 0.06, 0.45, "placements of agents", fontsize=8)
    if name == "bound":
        axes.annotate("", (best, -0.5), (least, -0.5), arrowprops={"arrowstyle": "<->"})
        axes.text((least + best) / 2, -0.4, "gap", ha="center", va="bottom", fontsize=8)
    axes.set_title(title, loc="left", fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_yticks([])
    axes.set_xlabel("ms") if name == "bound" else axes.set_xticklabels([])


def draw_measurement(width: float) -> None:
    """Draw a measured step: what is done once, and the pairs of timed inferences."""
    figure = Figure(figsize=(width, 2.0), layout="constrained")
    once, pairs = figure.subplots(2, 1)
    steps = ("compile the\nplacement", "compare\noutputs", "warm up")
    for axes, title in ((once, "once"), (pairs, "in pairs, until the ratio is known well enough")):
        axes.set(xlim=(0.0, 12.0), ylim=(-0.5, 0.5))
        axes.set_axis_off()
        axes.set_title(title, loc="left", fontsize=9)
    for index, step in enumerate(steps):
        draw_box(once, 4.0 * index, 3.8, "#dddddd", "black", step)
    for index in range(6):
        name, colour = ("reference\ndevice", RED) if index % 2 else ("placement", BLUE)
        draw_box(
            pairs, 2.0 * index - 0.2 * (index % 2), 2.1 if index % 2 else 1.7, colour, "white", name
        )
    save(figure, "measurement")


def draw_box(axes: Any, left: float, width: float, colour: str, letters: str, name: str) -> None:
    axes.barh(0.0, width, left=left, height=0.9, color=colour)
    size = 9 if axes.figure.get_figwidth() == WIDE else 6
    axes.text(left + width / 2, 0.0, name, ha="center", va="center", color=letters, fontsize=size)


if __name__ == "__main__":
    for width in (WIDE, NARROW):
        draw_overview(width)
        draw_measured(width)
        draw_schedules(width)
        draw_gap(width)
        draw_measurement(width)
    draw_episode()
