"""Requests under load, simulated and by the clock: the same policies on the same traces.

    python benchmarks/online_measured.py --rows rows.jsonl --folder FOLDER
    python benchmarks/online_measured.py --rows docs/results/online-measured-rows.jsonl --tables

Devices are two virtual processors of one thread, each on a core of its own, with a program on each
core as the other load. PPO is trained on the simulation with this machine's times. A row has the
load average when it began: other work takes these cores, too.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from common import Row, combine, make_parser, print_groups, read_rows, run_missing
from online import train

from placement_gym.base.progress import progress_bar, show_step
from placement_gym.bench.run.provenance import git_commit, host
from placement_gym.envs.online.choosers import make_chooser
from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.rules import RULES, make_rule
from placement_gym.version import VERSION

MODELS = ["mobilenet", "cnn:2", "tiny"]
DEVICES = "cpu-testbed-pair"
RATE = 0.6
REQUESTS = 60
WAYS = ("simulated", "measured")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="rows, added to and read")
    parser.add_argument("--folder", type=Path, default=Path(), help="of plans (%(default)s)")
    parser.add_argument("--traces", type=int, default=3, help="how many (%(default)s)")
    parser.add_argument("--requests", type=int, default=100_000, help="of PPO (%(default)s)")
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
    kwargs = {"plans": str(file), "rate": RATE, "requests": REQUESTS}
    ppo = options.folder / f"PPO-pair-{options.requests}.zip"
    if not ppo.exists():
        train("PPO", 0, options.requests, {"plans": str(file)}).save(ppo)
    envs = [OnlineEnv(**kwargs, trace="test", measured=way == "measured") for way in WAYS]
    ways = dict(zip(WAYS, envs, strict=True))
    play_one = partial(play, ways, OnlineEnv(**kwargs, trace="validation"), ppo)
    jobs = combine(number=range(options.traces), policy=[*RULES, "PPO"], way=WAYS)
    with progress_bar(None, "", quiet=False):
        rows = run_missing(options.rows, jobs, play_one)
    ways["measured"].close()
    return rows


def play(
    ways: dict[str, OnlineEnv], validation: OnlineEnv, ppo: Path, number: int, policy: str, way: str
) -> Row:
    """Play a trace: means over its requests."""
    from stable_baselines3 import PPO

    show_step(f"{policy}, trace {number}, {way}")
    env, load_average, began_s = ways[way], os.getloadavg()[0], perf_counter()
    # Rollouts read the environment that they play; static rules are chosen on validation traces.
    about = env if policy == "rollouts" else validation
    choose = make_chooser(PPO.load(ppo) if policy == "PPO" else make_rule(policy, about))
    (seen, _), over, total, done = env.reset(options={"trace": number}), False, 0.0, []
    while not over:
        seen, reward, _, over, info = env.step(int(choose(seen)))
        total -= reward
        each = info["slowdown"] * info["finished"]
        done.append((info["finished"], info["failed"], each, info["loaded_bytes"] / 1e6))
    finished, failed, slowdowns, loaded_mb = np.sum(done, axis=0)
    return {
        "log_slowdown": total / finished,
        "slowdown": slowdowns / finished,
        "failed": int(failed),
        "requests": int(finished),
        "loaded_mb": loaded_mb / finished,
        "seconds": round(perf_counter() - began_s, 1),
        "load_average": round(load_average, 1),
        "version": VERSION,
        "git": git_commit(),
        "host": host(),
    }


def print_tables(rows: list[Row]) -> None:
    """A line for each policy, simulated and measured."""
    columns = {
        f"{name.replace('_', ' ')}, {way}": partial(mean_of, way, name)
        for name in ("log_slowdown", "slowdown")
        for way in WAYS
    }
    columns["load average"] = partial(mean_of, "measured", "load_average")
    columns["failed"] = lambda group: str(sum(row["failed"] for row in group))
    columns["requests"] = lambda group: str(
        sum(row["requests"] for row in group if row["way"] == "measured")
    )
    print_groups(rows, ["policy"], columns)


def mean_of(way: str, name: str, group: list[Row]) -> str:
    return f"{np.mean([row[name] for row in group if row['way'] == way]):.2f}"


if __name__ == "__main__":
    main()
