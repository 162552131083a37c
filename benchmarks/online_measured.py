"""Requests under load, simulated and by the clock: the same policies on the same traces.

    python benchmarks/online_measured.py --rows rows.jsonl --folder FOLDER
    python benchmarks/online_measured.py --rows docs/results/online-measured-rows.jsonl --tables

Devices are two virtual processors of one thread, each on a core of its own, with a program on each
core as the other load. PPO is trained on the simulation with this machine's times.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Row, combine, make_parser, print_groups, read_rows, run_missing
from online import LEARNERS, OnlineVecEnv

from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.rules import RULES, make_rule
from placement_gym.envs.online.vector import OnlineVectorEnv

MODELS = ["mobilenet", "cnn:2", "tiny"]
DEVICES = "cpu-testbed-pair"
RATE = 0.8
REQUESTS = 60


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="rows, added to and read")
    parser.add_argument("--folder", type=Path, default=Path(), help="of plans (%(default)s)")
    parser.add_argument("--traces", type=int, default=3, help="how many (%(default)s)")
    parser.add_argument("--requests", type=int, default=60_000, help="of PPO (%(default)s)")
    parser.add_argument("--tables", action="store_true", help="print tables of the rows alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print_tables(read_rows(options.rows) if options.tables else run(options))


def run(options: argparse.Namespace) -> list[Row]:
    """Measure the plans, train PPO, and play every trace both ways."""
    file = options.folder / "plans-pair.json"
    if not file.exists():
        env = OnlineEnv(MODELS, DEVICES, measured=True, pace=1.0)
        env.plans.save(file)
        env.close()
    kwargs = {"plans": str(file), "rate": RATE, "requests": REQUESTS, "trace": "test"}
    ways = {
        "simulated": OnlineEnv(**kwargs),
        "measured": OnlineEnv(**kwargs, measured=True),
    }
    validation = OnlineEnv(**kwargs | {"trace": "validation"})
    policies = {name: make_rule(name, validation) for name in RULES if name != "rollouts"}
    policies["rollouts"] = RULES["rollouts"](ways["simulated"])
    policies["PPO"] = train(options, file)
    jobs = combine(number=range(options.traces), policy=policies, way=ways)
    rows = run_missing(options.rows, jobs, partial(play, ways, policies))
    ways["measured"].close()
    return rows


def train(options: argparse.Namespace, file: Path) -> Any:
    """PPO, trained on the simulation."""
    kept = options.folder / f"PPO-pair-{options.requests}.zip"
    make = LEARNERS["PPO"]
    if kept.exists():
        return make.func.load(kept)
    envs = OnlineVecEnv(OnlineVectorEnv(128, plans=str(file), rate=RATE))
    model = make(env=envs, seed=0, device="cpu").learn(options.requests)
    model.save(kept)
    return model


def play(
    ways: dict[str, OnlineEnv], policies: dict[str, Any], number: int, policy: str, way: str
) -> Row:
    """Play a trace: means over its requests."""
    env, chooser = ways[way], policies[policy]
    if policy == "rollouts":
        chooser.env = env
    (seen, _), over, total, done = env.reset(options={"trace": number}), False, 0.0, []
    while not over:
        action, _ = chooser.predict(seen, deterministic=True)
        seen, reward, _, over, info = env.step(int(action))
        total -= reward
        done.append((info["finished"], info["failed"], info["slowdown"] * info["finished"]))
    finished, failed, slowdowns = np.sum(done, axis=0)
    return {
        "log_slowdown": total / finished,
        "slowdown": slowdowns / finished,
        "failed": int(failed),
        "requests": int(finished),
    }


def print_tables(rows: list[Row]) -> None:
    """A line for each policy, simulated and measured."""
    columns = {}
    for way in ("simulated", "measured"):
        for name in ("log_slowdown", "slowdown"):
            columns[f"{name.replace('_', ' ')}, {way}"] = partial(mean_of, way, name)
    columns["failed"] = lambda group: str(sum(row["failed"] for row in group))
    print_groups(rows, ["policy"], columns)


def mean_of(way: str, name: str, group: list[Row]) -> str:
    values = [row[name] for row in group if row["way"] == way]
    return f"{np.mean(values):.2f}"


if __name__ == "__main__":
    main()
