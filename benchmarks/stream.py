"""Placing graphs that no policy has seen, within milliseconds of processor time.

    python benchmarks/stream.py --rows rows.jsonl --problems 1000
    python benchmarks/stream.py --rows floors.jsonl --problems 1000 --floors
    python benchmarks/stream_trainings.py --folder policies
    python benchmarks/stream.py --rows trained.jsonl --problems 1000 --policies policies
    python benchmarks/stream.py --rows published.jsonl --data DNN_PARTITIONING PIPEDREAM
    python benchmarks/stream.py --speed

Problems are those of ``DevicePlacementStream-v0``, of the test split, and each is placed by all
arms of ``stream_arms.py`` in turn. ``--floors`` has list scheduling without weights in place of
these, ``--policies`` policies of ``stream_trainings.py``. ``--data`` places published inputs, on
accelerators with little memory, by list schedules alone. ``stream_tables.py`` has the tables of
rows. ``--speed`` prints steps of environments a second of the process.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from common import BY_RANK, Row, combine, make_env, make_parser, run_missing
from floors import find_models
from stream_arms import Arm, list_arms, list_floors, list_trained, run_lists
from summaries import print_table

from placement_gym.bench.run.provenance import git_commit
from placement_gym.envs import StreamEnv
from placement_gym.solvers.list_policy import MANY, ONE, ListPolicy
from placement_gym.version import VERSION

DEVICES = ("1cpu+2acc@0.3", "1cpu+4acc@0.2")
SIMPLE = {"granularity": "op", "observe_graph": False}
PUBLISHED_SEEDS, PUBLISHED_SAMPLES = 3, (1, 8, 20, 100, 500)
"""Of published inputs."""
ENV_ID, STEPS, ROUNDS = "DevicePlacementStream-v0", 20, 10
"""Steps of a round of ``--speed``, and rounds, of which the fastest counts."""
WARM = 3
"""Problems that are placed untimed, so that compiled code is loaded."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, help="rows, added to and read")
    parser.add_argument("--problems", type=int, default=1000, help="how many (%(default)s)")
    parser.add_argument("--floors", action="store_true", help="list schedules without weights")
    parser.add_argument("--policies", type=Path, help="folder of policies, compared alone")
    parser.add_argument("--data", type=Path, nargs="+", help="folders of published inputs")
    parser.add_argument("--speed", action="store_true", help="time steps of environments alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.speed:
        print_table(time_steps())
    elif options.data:
        run_published(options)
    else:
        run(options)


def run(options: argparse.Namespace) -> None:
    """Place the problems that have no row."""
    env = StreamEnv("test", options.problems)
    arms = list_floors() if options.floors else list_arms(env)
    if options.policies:
        arms = list_trained(options.policies)
    train = StreamEnv("train", WARM)
    for seed in train.seeds:
        place_all(train, arms, seed)
    run_missing(options.rows, combine(problem=env.seeds), partial(place_all, env, arms))


def place_all(env: StreamEnv, arms: Mapping[str, Arm], problem: int) -> Row:
    """Place a problem by each arm in turn."""
    found = env.find_problem(problem)
    return {
        "problem": problem,
        "family": found.sampled.family,
        "units": found.problem.n_units,
        "limited": found.problem.limited,
        "schedule": found.simulator.semantics.schedule,
        "version": VERSION,
        "commit": git_commit(),
        "arms": {name: arm(found, problem) for name, arm in arms.items()},
    }


def time_steps() -> Iterator[Row]:
    """Time steps with random actions, all problems made before."""
    for name, num_envs, kwargs in (
        (ENV_ID, 64, {"sizes": (150, 310)}),
        (ENV_ID, 64, {}),
        (ENV_ID, 1, {}),
        ("CartPole-v1", 1, {}),
    ):
        envs: Any = gym.make_vec(name, num_envs, **kwargs)
        envs.reset(seed=0)
        envs.action_space.seed(0)
        actions = [envs.action_space.sample() for _ in range(STEPS)]
        seconds = []
        for _ in range(ROUNDS + 1):  # problems are made, and code is loaded, in the first
            began = process_time()
            for action in actions:
                envs.step(action)
            seconds.append(process_time() - began)
        stream = name == ENV_ID and envs.envs[0]
        units = (
            [stream.find_problem(seed).problem.n_units for seed in stream.seeds] if stream else []
        )
        yield {
            "environment": name,
            "units": f"{np.mean(units):.0f}" if units else "-",
            "at once": num_envs,
            "steps a CPU second": f"{STEPS * num_envs / min(seconds[1:]):.0f}",
        }


def run_published(options: argparse.Namespace) -> None:
    """Place published inputs that have no row."""
    files = find_models(options.data)
    jobs = combine(model=files, devices=DEVICES, seed=range(PUBLISHED_SEEDS))
    one, many = ListPolicy.load(ONE), ListPolicy.load(MANY)
    arms = {"random weights": None, "one": one.draw, "many": many.draw}

    def place_published(model: str, devices: str, seed: int) -> Row:
        env = make_env(files[model][0], devices=devices, schedule=BY_RANK, **SIMPLE)
        problem: Any = SimpleNamespace(
            problem=env.problem,
            simulator=env.backend.simulator,  # type: ignore[attr-defined]
        )
        return {
            "version": VERSION,
            "commit": git_commit(),
            "arms": {
                name: run_lists(draw, PUBLISHED_SAMPLES, problem, seed)
                for name, draw in arms.items()
            },
        }

    run_missing(options.rows, jobs, place_published)


if __name__ == "__main__":
    main()
