"""What each published agent is worth on workloads with little memory, and what its parts are.

    python benchmarks/published.py run --data DIR --rows FILE --problems test --budget 200 --seeds 5
    python benchmarks/published.py tables --rows FILE

DIR holds the inputs of dnn-partitioning. ``run`` appends one line a run to FILE and does what is
missing in it; ``--arms`` and ``--seconds`` limit what is run now. All placements are repaired. A
score is the best latency known over the latency; ``first`` is that of heuristics alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch
from classic import make_workload_env
from rich.console import Console
from rich.table import Table
from scipy.stats import sem

from placement_gym.bench.known.best_known import find_best_known
from placement_gym.bench.known.identity import identify
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.env import DevicePlacementEnv
from placement_gym.episode import play_episode

BY_RANK = {"preset": "list", "order": "priority"}
PROBLEMS = {
    "validation": (("LayerGraphs/resnet50_inference", "1cpu+2acc@0.3"),),
    "test": (
        ("LayerGraphs/inceptionv3_inference", "1cpu+2acc@0.3"),
        ("OperatorGraphs/bert_l-3_inference", "1cpu+4acc@0.2"),
    ),
}
IMITATION = {"gradient": 0.0, "ent_coef": 0.0}
ALONE = {"elites": 0}


class Arm(NamedTuple):
    """An agent and its options."""

    name: str
    kwargs: dict[str, Any] = {}  # noqa: RUF012  never changed


def make_arms() -> dict[str, Arm]:
    """Every arm by its label: agents, the papers' forms, and parts left out."""
    arms = {name: Arm(name) for name in ("heft", "random-blocks", "hill-climb", "list-sampling")}
    for name in ("rnn", "hdp", "post", "placeto", "doppler"):
        arms[name] = Arm(name)
        arms[f"{name}, paper"] = Arm(name, {"preset": "paper"})
        start = "first" if name == "placeto" else "random"
        arms[f"{name}, no heuristics"] = Arm(name, {"start": start})
    arms["doppler, paper"] = Arm("doppler", {"preset": "paper", "imitation": 40, "simulation": 40})
    for name in ("rnn", "post", "hdp"):
        arms[f"{name}, blind"] = Arm(name, {"policy": BLIND[name]})
        arms[f"{name}, room"] = Arm(name, {"policy": {"room": True}})
    for name in ("rnn", "hdp"):
        arms[f"{name}, fine from the start"] = Arm(name, {"policy": {"coarse": False}})
    arms["post, units alone"] = Arm("post", {"policy": {"runs": False}})
    arms["post, keeps nothing"] = Arm("post", {"keep": False})
    arms["placeto, room"] = Arm("placeto", {"policy": {"room": True}})
    arms["placeto, no stay"] = Arm("placeto", {"policy": {"stay": 0.0}})
    arms["rnn, imitation alone"] = Arm("rnn", IMITATION)
    arms["rnn, gradient alone"] = Arm("rnn", ALONE)
    arms["doppler, imitation alone"] = Arm("doppler", {"gradient": False})
    arms["doppler, gradient alone"] = Arm("doppler", {"elites": 0})
    arms["doppler, no stage 1"] = Arm("doppler", {"imitation": 0})
    arms["doppler, no stage 2"] = Arm("doppler", {"simulation": 0})
    arms["doppler, longest path next"] = Arm("doppler", {"learned_node": False})
    arms["doppler, earliest finish"] = Arm("doppler", {"learned_device": False})
    arms["hsdag"] = Arm("hsdag")
    for preset in ("search", "paper"):
        arms[f"hsdag, {preset}"] = Arm("hsdag", {"preset": preset})
    arms["hsdag, room"] = Arm("hsdag", {"policy": {"room": True}})
    arms["hsdag, no heuristics"] = Arm("hsdag", {"start": "random"})
    arms["hsdag, imitation alone"] = Arm("hsdag", IMITATION)
    arms["hsdag, gradient alone"] = Arm("hsdag", ALONE)
    for part, change in HSDAG_PARTS.items():
        arms[f"hsdag, no {part}"] = Arm("hsdag", {"policy": change})
    return arms


HSDAG_PARTS: dict[str, dict[str, Any]] = {
    "grouping": {"grouping": False, "choose_edges": False},
    "choice of edges": {"choose_edges": False, "depth": 0},
    "gate": {"gate": False},
    "runs": {"runs": False},
    "encoder": {"layers": 0},
    "devices": {"devices": False},
}
BLIND = {
    "rnn": {"devices": False},
    "hdp": {"devices": False},
    "post": {"cost_weight": 0.0},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("run", "tables"))
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--rows", type=Path, default=Path("published.jsonl"), help="%(default)s")
    parser.add_argument("--problems", default="test", help="a role (%(default)s)")
    parser.add_argument("--arms", default="", help="labels, separated by ; (all)")
    parser.add_argument("--budget", type=int, default=200, help="evaluations (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="of each arm (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1e9, help="of CPU time, then stop")
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"run": run_all, "tables": print_tables}[options.command](options)


def run_all(options: argparse.Namespace) -> None:
    """Do the runs that the file lacks, seed by seed."""
    known = {row["key"] for row in read_rows(options.rows)}
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


def run(
    options: argparse.Namespace, problem: tuple[str, str], label: str, seed: int
) -> dict[str, Any]:
    """One run: the best latency that it evaluated, and that of its prediction."""
    model, devices = problem
    env = make_env(options.data, model, devices)
    arm, started = make_arms()[label], process_time()
    meter = BudgetedBackend(env.backend, options.budget)
    env.backend = meter
    error, policy = "", None
    try:
        policy = AgentSpec(arm.name, arm.kwargs).make(env, seed)
        if hasattr(policy, "learn"):
            env.reset(seed=seed)
            policy.learn(options.budget)
    except Exception as failure:
        error = (
            "" if meter.evaluations >= options.budget else f"{type(failure).__name__}: {failure}"
        )
    env.backend = meter.inner
    reference_ms = env.reference.reference_ms
    greedy = None if policy is None else play_episode(env, policy, seed=seed)
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
        "cpu_s": process_time() - started,
        "error": error,
    }


def make_env(data: Path, model: str, devices: str) -> DevicePlacementEnv:
    """The environment of a workload, with repair."""
    return make_workload_env(
        data / "latency-inputs" / f"{model}.json",
        devices=devices,
        schedule=BY_RANK,
        granularity="op",
        observe_graph=False,
        repair=True,
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def print_tables(options: argparse.Namespace) -> None:
    """Print one table a role: mean scores over problems of each problem's mean over seeds."""
    rows, console = read_rows(options.rows), Console(width=140)
    best = find_best(rows)
    for role in PROBLEMS:
        mine = [row for row in rows if row["role"] == role]
        problems = sorted({(row["model"], row["devices"]) for row in mine})
        if not problems:
            continue
        table = Table("arm", "score", "+-", "greedy", "infeasible", "CPU s", "runs", title=role)
        for name, devices in problems:
            table.add_column(f"{Path(name).name} {devices}")
        for cells in tabulate(mine, problems, best):
            table.add_row(*cells)
        console.print(table)


def find_best(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """The least latency known of each problem, in ms."""
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        problem = (row["model"], row["devices"])
        known = row["best_known_ms"] or np.inf
        best[problem] = min(best.get(problem, np.inf), row["ms"], known)
    return best


def tabulate(
    rows: list[dict[str, Any]], problems: list[tuple[str, str]], best: dict[tuple[str, str], float]
) -> Iterator[list[str]]:
    """The rows of a table, best first; arms that lack a problem are left out."""
    found = []
    for label in dict.fromkeys(row["arm"] for row in rows):
        mine = [row for row in rows if row["arm"] == label]
        of = [[row for row in mine if (row["model"], row["devices"]) == p] for p in problems]
        if not all(of):
            continue
        seeds = range(min(map(len, of)))
        each = [[best[p] / row["ms"] for row in part] for p, part in zip(problems, of, strict=True)]
        greedy = [best[row["model"], row["devices"]] / (row["greedy_ms"] or np.inf) for row in mine]
        by_seed = [np.mean([part[k] for part in each]) for k in seeds]
        scores = [float(np.mean(part)) for part in each]
        tried = max(sum(row["evaluations"] for row in mine), 1)
        cells = [
            label,
            f"{np.mean(scores):.3f}",
            f"{sem(by_seed):.3f}" if len(by_seed) > 1 else "-",
            f"{np.mean(greedy):.3f}",
            f"{sum(row['infeasible'] for row in mine) / tried:.0%}",
            f"{np.mean([row['cpu_s'] for row in mine]):.0f}",
            str(len(mine)),
            *(f"{score:.3f}" for score in scores),
        ]
        found.append((float(np.mean(scores)), cells))
    yield from (cells for _, cells in sorted(found, key=lambda pair: -pair[0]))


if __name__ == "__main__":
    main()
