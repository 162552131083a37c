"""Learned placers in the papers' forms: speed of Placeto, and memory of the RNN placers.

    python benchmarks/learned.py --rows rows.jsonl --data DIR
    python benchmarks/learned.py --rows docs/results/learned-rows.jsonl      # its tables

DIR holds the inputs of dnn-partitioning. Seconds are of the processor, of one thread. A second call
does what the file of rows lacks.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import gymnasium as gym
import torch
from common import (
    BERT_12,
    Meter,
    Row,
    describe_env,
    describe_run,
    make_env,
    make_parser,
    run_apart,
    run_missing,
)
from summaries import print_table

from placement_gym.bench.run import AgentSpec
from placement_gym.envs import DevicePlacementEnv, PerUnitEnv, play_episode

PAPER = {"preset": "paper"}
PLACETO = "placeto"
MEMORY, SPEED = ("agent", "units", "peak_gib", "update_s"), ("environment_s", "greedy_s", "train_s")
"""Columns of the tables."""
UPDATE = 10
"""Placements of an update."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="one for each agent")
    parser.add_argument("--data", type=Path, help="a copy of dnn-partitioning")
    options = parser.parse_args()
    jobs = [{"arm": name} for name in ("rnn", "hdp", PLACETO)] if options.data else []
    rows = run_missing(options.rows, jobs, partial(run, options.data))
    apart = [row for row in rows if row["arm"] != PLACETO]
    print_table({name: row[name] for name in MEMORY} for row in apart)
    print_table({name: row[name] for name in SPEED} for row in rows if row not in apart)


def run(data: Path, arm: str) -> Row:
    """The row of an agent, which runs in a process of its own."""
    return run_apart(time_placeto, data / BERT_12) if arm == PLACETO else run_apart(train_raw, arm)


def time_placeto(model: Path) -> Row:
    """Time Placeto on the 783 nodes of bert_l-12, network and environment together."""
    torch.set_num_threads(1)
    env = make_env(model, devices="1cpu+2acc", granularity="op", observe_graph=False)
    meter, spec = count_evaluations(env), AgentSpec(PLACETO, PAPER)
    per_unit, n_units = PerUnitEnv(env), env.problem.n_units
    agent = spec.make(per_unit, 0)
    agent.learn(n_units)
    row = {
        "environment_s": median_s(lambda: step_through(per_unit, n_units)),
        "greedy_s": median_s(lambda: play_episode(per_unit, agent)),
        "train_s": median_s(lambda: agent.learn(n_units)),
    }
    return describe_run(describe_env(env), spec, 0, meter.n, meter) | row


def count_evaluations(env: DevicePlacementEnv) -> Meter:
    """Put a meter that never stops into an environment."""
    env.backend = meter = Meter(env.backend, (sys.maxsize,))
    return meter


def step_through(env: gym.Env[Any, Any], n_units: int) -> None:
    """Play an episode without a network."""
    env.reset()
    for _ in range(n_units):
        env.step(1)


def median_s(action: Callable[[], Any], repeats: int = 3) -> float:
    """Run an action several times; returns the median of processor seconds."""
    times = []
    for _ in range(repeats):
        started = process_time()
        action()
        times.append(process_time() - started)
    return round(median(times), 2)


def train_raw(name: str) -> Row:
    """Make two updates on bert-8-fp16's raw graph; returns the memory of the process."""
    torch.set_num_threads(1)
    env = make_env("bert-8-fp16", graph="raw", granularity="op")
    meter, spec = count_evaluations(env), AgentSpec(name, PAPER)
    agent = spec.make(env, 0)
    agent.learn(UPDATE)
    update_s = median_s(lambda: agent.learn(UPDATE), repeats=1)
    peak_gib = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    measured = {"units": env.problem.n_units, "peak_gib": peak_gib, "update_s": update_s}
    return describe_run(describe_env(env), spec, 0, meter.n, meter) | measured


if __name__ == "__main__":
    main()
