"""Learned placers: speed of Placeto, and memory of the RNN placers.

    python benchmarks/learned.py                 # memory
    python benchmarks/learned.py --data DIR      # speed

DIR holds the inputs of dnn-partitioning.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from common import make_env, run_apart
from rich.console import Console
from rich.table import Table

from agents.placeto.agent import make as placeto
from agents.rnn.agent import make as rnn
from placement_gym.envs.episode import play_episode
from placement_gym.envs.placement_env import placement_env

LONG = "latency-inputs/OperatorGraphs/bert_l-12_inference.json"
PER_UNIT = "DevicePlacementPerUnitSim-v0"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = time_placeto(options.data / LONG) if options.data else measure_memory()
    Console(width=120).print(table)


def time_placeto(model: Path) -> Table:
    """Time Placeto on the 783 nodes of bert_l-12, one thread, network and environment together."""
    table = Table("what", "s", title="Placeto, 783 units, one thread")
    kwargs = {"model": str(model), "devices": "1cpu+2acc", "granularity": "op"}
    env = gym.make(PER_UNIT, observe_graph=False, **kwargs)
    agent = placeto(env, 0)
    n_units = placement_env(env).problem.n_units
    agent.learn(n_units)
    table.add_row("environment alone", f"{median_s(lambda: step_through(env, n_units)):.2f}")
    table.add_row("greedy rollout", f"{median_s(lambda: play_episode(env, agent)):.2f}")
    table.add_row("training episode", f"{median_s(lambda: agent.learn(n_units)):.2f}")
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


def measure_memory() -> Table:
    """Measure RNN placers' memory on bert-8-fp16's raw graph, each in a process of its own."""
    table = Table("agent", "units", "peak GiB", "s an update", "published")
    for name, published in (("rnn", "out of memory"), ("hdp", "-")):
        units, gib, update_s = run_apart(train_on_raw, name == "hdp")
        table.add_row(name, str(units), f"{gib:.2f}", f"{update_s:.1f}", published)
    return table


def train_on_raw(hierarchical: bool) -> tuple[int, float, float]:
    """Make two updates of ten placements; returns units, peak GiB and seconds an update."""
    torch.set_num_threads(1)
    env = make_env("bert-8-fp16", graph="raw", granularity="op")
    agent = rnn(env, 0, hierarchical=hierarchical)
    agent.learn(10)
    update_s = median_s(lambda: agent.learn(10), repeats=1)
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return env.problem.n_units, gib, update_s


if __name__ == "__main__":
    main()
