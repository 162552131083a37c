"""HSDAG's time for each placement; policy, Stable-Baselines3 and environment together.

    python benchmarks/hsdag.py --data DIR

DIR holds the inputs of dnn-partitioning; without it the largest graph is left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import process_time

import torch
from common import make_env
from rich.console import Console
from rich.table import Table

from agents.common.reinforce import REINFORCE
from agents.hsdag.agent import make
from placement_gym.envs.env import DevicePlacementEnv

LONG = "latency-inputs/OperatorGraphs/bert_l-12_inference.json"
GRAPHS = {
    "resnet": ({"model": "resnet"}, 40.0),
    "bert-8": ({"model": "bert-8"}, 105.0),
    "resnet-fp16 raw": ({"model": "resnet-fp16", "graph": "raw"}, 40.0),
    "bert-fp16 raw": ({"model": "bert-fp16", "graph": "raw"}, 105.0),
}
"""Environment, and ms a placement of the published code."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--graphs", default=",".join(GRAPHS), help="%(default)s")
    parser.add_argument("--placements", type=int, default=200, help="timed (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("graph", "units", "form", "ms a placement", "published code, ms", "ratio")

    def add(name: str, env: DevicePlacementEnv, form: str, agent: REINFORCE, known: str) -> None:
        ms = time_placement_ms(agent, options.placements)
        ratio = f"{float(known) / ms:.0f}" if known else ""
        table.add_row(name, str(env.problem.n_units), form, f"{ms:.2f}", known, ratio)

    for name in options.graphs.split(","):
        kwargs, published_ms = GRAPHS[name]
        env = make_env(**kwargs)
        add(name, env, "paper's episodes", make(env, 0, preset="paper"), f"{published_ms:g}")
        add(name, env, "default", make(env, 0), "")
    if options.data is not None:
        env = make_env(options.data / LONG, granularity="op")
        add("bert_l-12", env, "20 at once", make(env, 0, n_epochs=1), "")
    Console(width=120).print(table)


def time_placement_ms(agent: REINFORCE, placements: int) -> float:
    """Time learning after a first update; returns ms of one core a placement."""
    agent.learn(agent.n_steps * agent.n_envs)
    started = process_time()
    agent.learn(placements, reset_num_timesteps=False)
    return (process_time() - started) / placements * 1e3


if __name__ == "__main__":
    main()
