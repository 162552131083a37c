"""Draws an episode of the environment that places one unit a step, frame by frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from graphs import draw_edges, spread_layers
from matplotlib.animation import PillowWriter
from matplotlib.figure import Figure

import placement_gym
from placement_gym.solvers import minimum_cut
from placement_gym.view import assign_layers
from placement_gym.view.figures import COLOURS

FILE = Path(__file__).parent / "episode.gif"
MODEL, DEVICES = "inception", "hsdag-paper"
UNITS_A_FRAME = 4
LAST_FRAMES = 8
"""How often the end is repeated, before the episode begins again."""


def play_episode() -> tuple[Any, list[np.ndarray], list[float]]:
    """Play the episode that places each unit where a minimum cut has it.

    Returns:
        The problem; the placement, (n_units,), and the latency, ms, at the start and at each step.
    """
    env = gym.make("DevicePlacementPerUnitSim-v0", model=MODEL, devices=DEVICES)
    base: Any = placement_gym.placement_env(env)
    best = minimum_cut(base.problem.units, base.backend.costs).assignment
    _, info = env.reset(seed=0)
    placements, latencies = [base.assignment], [info["latency_ms"]]
    terminated = False
    while not terminated:
        _, _, terminated, _, info = env.step(best[len(placements) - 1])
        placements.append(base.assignment)
        latencies.append(info["latency_ms"])
    return base.problem, placements, latencies


def draw_episode() -> None:
    """The page of the environments: an episode, with the latency after each step."""
    problem, placements, latencies = play_episode()
    last = len(placements) - 1
    steps = [*range(0, last, UNITS_A_FRAME), *[last] * LAST_FRAMES]
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    writer = PillowWriter(fps=4)
    with writer.saving(figure, str(FILE), dpi=90):
        for step in steps:
            figure.clear()
            graph, curve = figure.subplots(2, 1, height_ratios=[1.2, 1])
            draw_placement(graph, problem, placements[step], step)
            draw_latencies(curve, latencies, step)
            writer.grab_frame(facecolor="white")


def draw_placement(axes: Any, problem: Any, placement: np.ndarray, step: int) -> None:
    units = problem.units.quotient
    across = assign_layers(units)
    down = spread_layers(across)
    axes.add_collection(draw_edges(units.edge_index, across, down, placement))
    colours = np.array(COLOURS)[placement]
    placed = np.arange(len(placement)) < step
    axes.scatter(across[placed], down[placed], 26, colours[placed], zorder=2)
    axes.scatter(across[~placed], down[~placed], 18, "white", edgecolors=colours[~placed], zorder=2)
    for index, name in enumerate(problem.device_names):
        axes.scatter([], [], 26, COLOURS[index], label=name)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, ncols=2)
    axes.set_title(f"{step} of {len(placement)} units placed", loc="left")
    axes.set_axis_off()


def draw_latencies(axes: Any, latencies: list[float], step: int) -> None:
    axes.plot(latencies[: step + 1], color="black", linewidth=1)
    axes.scatter([step], [latencies[step]], 16, "black")
    side = "left" if step < len(latencies) / 2 else "right"
    axes.text(step, latencies[step] + 0.2, f"{latencies[step]:.2f} ms", ha=side)
    axes.set_xlim(-1, len(latencies))
    axes.set_ylim(min(latencies) - 0.4, max(latencies) + 0.7)
    axes.set_xlabel("step")
    axes.set_ylabel("latency, ms")
    axes.spines[["top", "right"]].set_visible(False)
