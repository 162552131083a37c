"""What each published agent is worth on workloads with little memory, and what its parts are.

    python benchmarks/published.py run --data DIR --rows FILE --problems test --budget 200 --seeds 5
    python benchmarks/published.py tables --rows FILE --problems test --budget 200
    python benchmarks/published.py samples --rows FILE --problems parts --arms "placeto;rnn"

DIR holds the inputs of dnn-partitioning. ``run`` appends one line a run to FILE and does what is
missing in it; ``--arms`` and ``--seconds`` limit what is run now. ``samples`` compares how soon two
arms reach the same. All placements are repaired. A score is the best latency known over the
latency. CPU seconds leave out the serial program that heuristics start with, which is solved once
for each problem. ``--each 5`` in place of ``--budget`` runs every agent for five CPU seconds, the
program of those that start with it included.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import torch
from published_problems import PROBLEMS, make_env
from published_seconds import Programs, TimedBackend
from published_tables import print_samples, print_tables, read_rows

from agents.search import starts
from placement_gym.bench.known.best_known import find_best_known
from placement_gym.bench.known.identity import identify
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached
from placement_gym.env import DevicePlacementEnv
from placement_gym.episode import play_episode

STARTED = {"begin_with": "heuristics"}
IMITATING = {**STARTED, "imitate": 10.0}
"""Beginning and imitation of the agents whose row says that they begin with heuristics."""
PROGRAMS = Programs(starts.serial_program)
TRIAL, ENDLESS = 100, 10**9
"""Evaluations of a run that only compiles what it needs, and of one that ends by its seconds."""


class Arm(NamedTuple):
    """An agent and its options."""

    name: str
    kwargs: dict[str, Any] = {}  # noqa: RUF012  never changed


def make_arms() -> dict[str, Arm]:
    """Every arm by its label: agents, the papers' forms, and parts left out."""
    arms = {name: Arm(name) for name in CLASSIC}
    for name in ("rnn", "hdp", "post", "placeto", "doppler", "gdp"):
        arms[name] = Arm(name)
        arms[f"{name}, paper"] = Arm(name, {"preset": "paper"})
        arms[f"{name}, heuristics"] = Arm(name, STARTED)
    arms["doppler, paper"] = Arm("doppler", {"preset": "paper", "imitation": 40, "simulation": 40})
    for name in ("rnn", "post", "hdp"):
        arms[f"{name}, blind"] = Arm(name, {"policy": BLIND[name]})
        arms[f"{name}, room"] = Arm(name, {"policy": {"room": True}})
    for name in ("rnn", "hdp"):
        arms[f"{name}, fine from the start"] = Arm(name, {"policy": {"coarse": False}})
    arms["post, units alone"] = Arm("post", {"policy": {"runs": False}})
    arms["placeto, room"] = Arm("placeto", {"policy": {"room": True}})
    for variant in ("joint", "ppo"):
        arms[f"post, {variant}"] = Arm("post", {"variant": variant})
    for name in ("hsdag", "rnn", "hdp", "gdp", "post"):
        arms[f"{name}, heuristics and imitation"] = Arm(name, IMITATING)
    arms["doppler, heuristics and imitation"] = Arm("doppler", {**STARTED, "imitate": 1.0})
    arms["doppler, no stage 1"] = Arm("doppler", {"imitation": 0})
    arms["doppler, no stage 2"] = Arm("doppler", {"simulation": 0})
    arms["doppler, longest path next"] = Arm("doppler", {"learned_node": False})
    arms["doppler, earliest finish"] = Arm("doppler", {"learned_device": False})
    arms["hsdag"] = Arm("hsdag")
    arms["hsdag, paper"] = Arm("hsdag", {"preset": "paper"})
    arms["hsdag, heuristics"] = Arm("hsdag", STARTED)
    arms["hill-climb, quick"] = Arm("hill-climb", {"start": "quick"})
    for part, change in HSDAG_PARTS.items():
        arms[f"hsdag, no {part}"] = Arm("hsdag", {"policy": change})
    return arms


HSDAG_PARTS: dict[str, dict[str, Any]] = {
    "grouping": {"depth": 0},
    "cutting": {"cut": False},
    "gate": {"gate": False},
    "dropout": {"dropout": 0.0},
    "encoder": {"layers": 0},
    "times": {"cost_weight": 0.0},
}
CLASSIC = (
    "heft",
    "random-blocks",
    "hill-climb",
    "search",
    "critical-path",
)
BLIND = {
    "rnn": {"devices": False},
    "hdp": {"devices": False},
    "post": {"cost_weight": 0.0},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("run", "tables", "samples"))
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--rows", type=Path, default=Path("published.jsonl"), help="%(default)s")
    parser.add_argument("--problems", default="test", help="a role (%(default)s)")
    parser.add_argument("--arms", default="", help="labels, separated by ; (all)")
    parser.add_argument("--budget", type=int, default=200, help="evaluations (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="of each arm (%(default)s)")
    parser.add_argument("--against", default="hsdag", help="arm to compare with (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1e9, help="of CPU time, then stop")
    parser.add_argument("--each", type=float, help="CPU seconds a run, in place of --budget")
    options = parser.parse_args()
    options.budget = options.budget if options.each is None else f"{options.each:g} s"
    torch.set_num_threads(1)
    starts.serial_program = PROGRAMS
    if options.command == "run":
        run_all(options)
    else:
        show = print_tables if options.command == "tables" else print_samples
        show(read_rows(options.rows), PROBLEMS[options.problems], options)


def run_all(options: argparse.Namespace) -> None:
    """Do the runs that the file lacks, seed by seed."""
    known = {row["key"] for row in read_rows(options.rows)}
    if options.each is not None:
        warm_up(options)
    for seed in range(options.seeds):
        for problem in PROBLEMS[options.problems]:
            for label in choose_arms(options.arms):
                key = "|".join([*problem, label, str(seed), str(options.budget)])
                if key in known:
                    continue
                if process_time() > options.seconds:
                    return
                row = {"key": key, "role": options.problems, **run(options, problem, label, seed)}
                with options.rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{key}: {row['ms']:.4f} ms, {row['cpu_s']:.0f} s", flush=True)


def choose_arms(labels: str) -> list[str]:
    """The arms that were asked for."""
    return labels.split(";") if labels else list(make_arms())


def warm_up(options: argparse.Namespace) -> None:
    """Let every arm search once, so that compiled code is loaded before seconds count."""
    arms = make_arms()
    for label in choose_arms(options.arms):
        env = make_env(options.data, *PROBLEMS[options.problems][0])
        search(env, BudgetedBackend(env.backend, TRIAL), arms[label], 0, TRIAL)


def run(
    options: argparse.Namespace, problem: tuple[str, str], label: str, seed: int
) -> dict[str, Any]:
    """One run: the best latency that it evaluated, and that of its prediction.

    A run that ends by its seconds makes no prediction.
    """
    model, devices = problem
    env, arm = make_env(options.data, model, devices), make_arms()[label]
    evaluations = options.budget
    meter = BudgetedBackend(env.backend, evaluations)
    if options.each is not None:
        evaluations = ENDLESS
        meter = TimedBackend(env.backend, options.each, PROGRAMS.time_with_s)
    started = PROGRAMS.time_without_s()
    policy, error = search(env, meter, arm, seed, evaluations)
    reference_ms = env.reference.reference_ms
    predicts = policy is not None and options.each is None
    greedy = play_episode(env, policy, seed=seed) if predicts else None
    best = meter.curve[-1][-1] if meter.curve else 0.0
    if not meter.evaluations and greedy is not None:
        best = greedy["speedup"] if greedy["feasible"] else 0.0
    known = find_best_known(identify(env.backend))
    return {
        "model": model,
        "devices": devices,
        "arm": label,
        "seed": seed,
        "budget": options.budget,
        "ms": reference_ms / max(best, 1e-9),
        "greedy_ms": greedy["latency_ms"] if greedy is not None and greedy["feasible"] else None,
        "curve": [(point[0], reference_ms / point[-1]) for point in meter.curve],
        "evaluations": meter.evaluations,
        "infeasible": meter.n_infeasible,
        "best_known_ms": None if known is None else known.latency_ms,
        "n_units": env.problem.n_units,
        "cpu_s": PROGRAMS.time_without_s() - started,
        "error": error,
    }


def search(
    env: DevicePlacementEnv, meter: BudgetedBackend, arm: Arm, seed: int, evaluations: int
) -> tuple[Any, str]:
    """Let an agent search; returns it, and what went wrong."""
    env.backend = meter
    policy, error = None, ""
    try:
        policy = AgentSpec(arm.name, arm.kwargs).make(env, seed)
        if hasattr(policy, "learn"):
            env.reset(seed=seed)
            policy.learn(evaluations)
    except BudgetReached:
        pass
    except Exception as failure:
        spent = meter.evaluations >= meter.budget
        error = "" if spent else f"{type(failure).__name__}: {failure}"
    finally:
        env.backend = meter.inner
    return policy, error


if __name__ == "__main__":
    main()
