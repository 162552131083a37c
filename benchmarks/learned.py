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
from common import make_env
from rich.console import Console
from rich.table import Table

from agents.placeto.agent import make as placeto
from agents.rnn.agent import make as rnn
from placement_gym.env import placement_env
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
        "speed": time_placeto,
        "memory": measure_memory,
    }
    for part in options.parts.split(","):
        Console(width=120).print(parts[part](options))


def time_placeto(options: argparse.Namespace) -> Table:
    """Time Placeto on the 783 nodes of bert_l-12, one thread, network and environment together."""
    if options.data is None:
        raise SystemExit("speed needs --data, the inputs of dnn-partitioning")
    table = Table("what", "s", "our target, s", title="Placeto, 783 units, one thread")
    kwargs = {"model": str(options.data / LONG), "devices": "1cpu+2acc", "granularity": "op"}
    env = gym.make(PER_UNIT, observe_graph=False, **kwargs)
    agent = placeto(env, 0)
    n_units = placement_env(env).problem.n_units
    agent.learn(n_units)
    table.add_row("environment alone", f"{median_s(lambda: step_through(env, n_units)):.2f}", "")
    table.add_row("greedy rollout", f"{median_s(lambda: play_episode(env, agent)):.2f}", "2")
    table.add_row("training episode", f"{median_s(lambda: agent.learn(n_units)):.2f}", "8")
    return table


def step_through(env: gym.Env[Any, Any], n_units: int) -> None:
    """Play an episode without a network."""
    env.reset()
    for _ in range(n_units):
        env.step(1)


def median_s(action: Callable[[], Any], repeats: int = 3) -> float:
    """Run an action several times; returns the median seconds."""
    times = []
    for _ in range(repeats):
        started = perf_counter()
        action()
        times.append(perf_counter() - started)
    return float(np.median(times))


def measure_memory(options: argparse.Namespace) -> Table:
    """Measure RNN placers' memory on bert-8-fp16's raw graph, each in a process of its own."""
    table = Table("agent", "units", "peak GiB", "s an update", "our target, GiB", "published")
    for name in ("rnn", "hdp"):
        command = [sys.executable, __file__, "--raw", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        units, gib, update_s = done.stdout.split()
        table.add_row(name, units, gib, update_s, "4", "out of memory" if name == "rnn" else "-")
    return table


def train_on_raw(hierarchical: bool) -> None:
    """Make two updates of ten placements; prints units, peak GiB and seconds an update."""
    env = make_env(model="bert-8-fp16", graph="raw", granularity="op")
    agent = rnn(env, 0, hierarchical=hierarchical)
    agent.learn(10)
    update_s = median_s(lambda: agent.learn(10), repeats=1)
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(env.problem.n_units, f"{gib:.2f}", f"{update_s:.1f}")


if __name__ == "__main__":
    main()
