"""Learned placers: speed of Placeto, and memory of the RNN placers.

    python benchmarks/learned.py --parts memory
    python benchmarks/learned.py --parts speed --data DIR

DIR holds the inputs of dnn-partitioning. The studies compare the quality of placements.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import placement_gym  # noqa: F401  registers the environments
from agents.placeto.agent import make as placeto
from agents.rnn.agent import make as rnn
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.episode import play_episode

LONG = "latency-inputs/OperatorGraphs/bert_l-12_inference.json"
PER_UNIT = "DevicePlacementPerUnitSim-v0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="memory", help="comma-separated: speed, memory")
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--raw", choices=["rnn", "hdp"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.raw:
        train_on_raw(options.raw == "hdp")
        return
    parts: dict[str, Callable[[argparse.Namespace], Table]] = {
        "speed": speed,
        "memory": memory,
    }
    for part in options.parts.split(","):
        Console(width=120).print(parts[part](options))


def speed(options: argparse.Namespace) -> Table:
    """Time of Placeto on the 783 units of bert_l-12 on one thread, environment included."""
    if options.data is None:
        raise SystemExit("speed needs --data, the inputs of dnn-partitioning")
    table = Table("what", "s", "our target, s", title="Placeto, 783 units, one thread")
    kwargs = {"model": str(options.data / LONG), "devices": "1cpu+2acc", "granularity": "op"}
    env = gym.make(PER_UNIT, observe_graph=False, **kwargs)
    agent = placeto(env, 0)
    n_units = placement_env(env).problem.n_units
    agent.learn(n_units)
    table.add_row("environment alone", f"{seconds(lambda: walk(env, n_units)):.2f}", "")
    table.add_row("greedy rollout", f"{seconds(lambda: play_episode(env, agent)):.2f}", "2")
    table.add_row("training episode", f"{seconds(lambda: agent.learn(n_units)):.2f}", "8")
    return table


def walk(env: gym.Env[Any, Any], n_units: int) -> None:
    """Play an episode without a network."""
    env.reset()
    for _ in range(n_units):
        env.step(1)


def seconds(action: Callable[[], Any], repeats: int = 3) -> float:
    """Median time of an action in seconds."""
    times = []
    for _ in range(repeats):
        started = perf_counter()
        action()
        times.append(perf_counter() - started)
    return float(np.median(times))


def memory(options: argparse.Namespace) -> Table:
    """Peak memory of the RNN placers on bert-8-fp16's raw graph, in separate processes."""
    table = Table("agent", "units", "peak GiB", "s per update", "our target, GiB", "published")
    for name in ("rnn", "hdp"):
        command = [sys.executable, __file__, "--raw", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        units, gib, update_s = done.stdout.split()
        table.add_row(name, units, gib, update_s, "4", "out of memory" if name == "rnn" else "-")
    return table


def train_on_raw(hierarchical: bool) -> None:
    """Run two updates of ten placements; print units, peak GiB and seconds per update."""
    env = simulated(model="bert-8-fp16", graph="raw", granularity="op")
    agent = rnn(env, 0, hierarchical=hierarchical)
    agent.learn(10)
    update_s = seconds(lambda: agent.learn(10), repeats=1)
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(env.problem.n_units, f"{gib:.2f}", f"{update_s:.1f}")


def simulated(**kwargs: Any) -> DevicePlacementEnv:
    return placement_env(gym.make("DevicePlacementSim-v0", **kwargs))


if __name__ == "__main__":
    main()
