"""Learned placers: speed of Placeto, and memory of the RNN placers.

    python benchmarks/learned.py                 # memory
    python benchmarks/learned.py --data DIR      # speed

DIR holds the inputs of dnn-partitioning.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import gymnasium as gym
import torch
from common import BERT_12, Row, make_env, make_parser, print_table, run_apart

from agents.placeto.agent import make as placeto
from agents.rnn.agent import make as rnn
from agents.rnn.agent import make_hierarchical as hdp
from placement_gym.envs.episode import play_episode
from placement_gym.envs.placement_env import placement_env

PER_UNIT = "DevicePlacementPerUnitSim-v0"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.data:
        print_table([time_placeto(options.data / BERT_12)], "Placeto, 783 units, one thread, s")
    else:
        print_table(run_apart(train_on_raw, name == "hdp") for name in ("rnn", "hdp"))


def time_placeto(model: Path) -> Row:
    """Time Placeto on the 783 nodes of bert_l-12, one thread, network and environment together."""
    kwargs = {"model": str(model), "devices": "1cpu+2acc", "granularity": "op"}
    env = gym.make(PER_UNIT, observe_graph=False, **kwargs)
    agent = placeto(env, 0)
    n_units = placement_env(env).problem.n_units
    agent.learn(n_units)
    return {
        "environment alone": median_s(lambda: step_through(env, n_units)),
        "greedy rollout": median_s(lambda: play_episode(env, agent)),
        "training episode": median_s(lambda: agent.learn(n_units)),
    }


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
    return round(median(times), 2)


def train_on_raw(hierarchical: bool) -> Row:
    """Make two updates of ten placements on bert-8-fp16's raw graph."""
    torch.set_num_threads(1)
    env = make_env("bert-8-fp16", graph="raw", granularity="op")
    agent = (hdp if hierarchical else rnn)(env, 0)
    agent.learn(10)
    update_s = median_s(lambda: agent.learn(10), repeats=1)
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "agent": "hdp" if hierarchical else "rnn",
        "units": env.problem.n_units,
        "peak GiB": f"{gib:.2f}",
        "s an update": f"{update_s:.1f}",
    }


if __name__ == "__main__":
    main()
