"""Frames per second of ``render()`` in mode ``rgb_array``: drawn afresh, and as videos need them.

    python benchmarks/video.py resnet inception bert

Both draw the same placements in one run, so that their ratio means something on a busy machine too.
The first frame, which lays the graph out, is not counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np

import placement_gym  # noqa: F401  registers the ids
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.plots.placement import draw_placement
from placement_gym.plots.style import render_pixels
from placement_gym.render import make_title


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["resnet", "inception", "bert"])
    parser.add_argument("--granularity", default="op")
    parser.add_argument("--frames", type=int, default=10)
    options = parser.parse_args()
    print("model                 units   redrawn/s   render()/s   ratio")
    for model in options.models:
        make = {"model": model, "granularity": options.granularity, "horizon": 10**6}
        env = gym.make("DevicePlacementSim-v0", render_mode="rgb_array", **make)
        units, redrawn, rendered = time_frames(env, options.frames)
        ratio = redrawn / rendered
        print(f"{model:20} {units:6} {1 / redrawn:11.2f} {1 / rendered:12.2f} {ratio:7.1f}")


def time_frames(env: gym.Env[Any, Any], n_frames: int) -> tuple[int, float, float]:
    """Units, and seconds of a frame that is drawn afresh and of one by ``render()``."""
    base = placement_env(env)
    env.reset(seed=0)
    env.action_space.seed(0)
    env.render()
    spent = np.zeros(2)
    for _ in range(n_frames):
        env.step(env.action_space.sample())
        spent += time(lambda: redraw(base)), time(env.render)
    redrawn, rendered = spent / n_frames
    return base.problem.n_units, redrawn, rendered


def redraw(env: DevicePlacementEnv) -> None:
    """Draw the placement of an environment afresh."""
    title = make_title(env.problem, env.last_measurement)
    render_pixels(draw_placement(env.problem, env.assignment, title))


def time(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    began = perf_counter()
    call()
    return perf_counter() - began


if __name__ == "__main__":
    main()
