"""What each published agent is worth on workloads with little memory, and what its parts are.

    python benchmarks/published.py run --data DIR --rows FILE --problems test --budget 200 --seeds 5
    python benchmarks/published.py tables --rows FILE --problems test --budget 200
    python benchmarks/published.py samples --rows FILE --problems parts --arms "placeto;rnn"

DIR holds the inputs of dnn-partitioning. ``run`` appends one line a run to FILE and does what is
missing in it; ``--arms`` and ``--seconds`` limit what is run now. ``samples`` compares how soon two
arms reach the same. All placements are repaired. A
score is the best latency known over the latency. CPU seconds leave out the serial program that
heuristics start with, which is solved once for each problem.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import torch
from classic import make_workload_env
from published_tables import print_samples, print_tables, read_rows

from agents.search import starts
from placement_gym.bench.known.best_known import find_best_known
from placement_gym.bench.known.identity import identify
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.entry_points import SimulatedEnv
from placement_gym.env import DevicePlacementEnv
from placement_gym.episode import play_episode
from placement_gym.graph.families.problems import make_problem

DRAWN = "drawn"
"""In place of devices: those of the problem that the model's seed draws."""
FOUR = "0cpu+4acc"
"""Devices of DOPPLER's publication, whose simulator is schedule ``"giph"``."""
BY_RANK = {"preset": "list", "order": "priority"}
PARTS = (
    ("family-recurrent-53-seed10005", DRAWN),
    ("family-series-parallel-46-seed10021", DRAWN),
    ("family-series-parallel-49-seed10030", DRAWN),
    ("family-branching-91-seed10034", DRAWN),
)
PROBLEMS = {
    "validation": (
        ("family-layered-81-seed57", DRAWN),
        ("family-series-parallel-58-seed101", DRAWN),
        ("family-recurrent-40-seed129", DRAWN),
        ("family-attention-58-seed151", DRAWN),
        ("LayerGraphs/resnet50_inference", "1cpu+2acc@0.3"),
    ),
    "test": (
        *PARTS,
        ("family-attention-77-seed10008", DRAWN),
        ("family-attention-109-seed10013", DRAWN),
        ("family-attention-82-seed10035", DRAWN),
    ),
    "parts": PARTS,
    "published": (
        ("LayerGraphs/bert24_inference", "1cpu+2acc@0.3"),
        ("LayerGraphs/inceptionv3_inference", "1cpu+2acc@0.3"),
        ("OperatorGraphs/bert_l-3_inference", "1cpu+4acc@0.2"),
    ),
    "doppler": (
        ("doppler/chain_mm_112nodes", FOUR),
        ("doppler/ffnn_192nodes", FOUR),
        ("doppler/transformer_block_215nodes", FOUR),
        ("doppler/full_transformer_layer_261nodes", FOUR),
    ),
}
"""Problems by role; those of ``"parts"`` are also test problems."""
ENTROPY = 0.01
"""Weight of the entropy where HSDAG follows the policy gradient."""
IMITATION = {"gradient": 0.0, "ent_coef": 0.0}
ALONE = {"elites": 0}


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
    for variant in ("cross_entropy", "ppo"):
        arms[f"post, {variant}"] = Arm("post", {"variant": variant})
    for name in ("rnn", "hdp", "gdp"):
        arms[f"{name}, imitation alone"] = Arm(name, IMITATION)
        arms[f"{name}, gradient alone"] = Arm(name, ALONE)
    arms["hdp, imitating"] = Arm("hdp", {"elites": 2, "imitation": 10.0})
    arms["gdp, search"] = Arm("gdp", {"preset": "search"})
    arms["gdp, sampled first"] = Arm("gdp", {"policy": {"greedy_first": False}})
    arms["gdp, 20 an update"] = Arm("gdp", {"envs": {"num_envs": 20}})
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
    both = {"gradient": 1.0, "ent_coef": ENTROPY}
    arms["hsdag, with gradient"] = Arm("hsdag", both)
    arms["hsdag, gradient alone"] = Arm("hsdag", {**both, **ALONE, "policy": {"moves": 0.0}})
    arms["hsdag, no moves"] = Arm("hsdag", {"policy": {"moves": 0.0}})
    arms["hsdag, no moves, with gradient"] = Arm("hsdag", {**both, "policy": {"moves": 0.0}})
    arms["hsdag, learns nothing"] = Arm("hsdag", {"learning_rate": 0.0})
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
CLASSIC = (
    "heft",
    "random-blocks",
    "hill-climb",
    "list-sampling",
    "multilevel",
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
    options = parser.parse_args()
    torch.set_num_threads(1)
    starts.serial_program = remember_programs(starts.serial_program)
    if options.command == "run":
        run_all(options)
    else:
        show = print_tables if options.command == "tables" else print_samples
        show(read_rows(options.rows), PROBLEMS[options.problems], options)


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


def remember_programs(solve: Callable[..., Any]) -> Callable[..., Any]:
    """A solver that solves each problem once: its answer depends on nothing else."""
    known: dict[str, Any] = {}

    def solve_once(problem: Any, costs: Any, *limits: Any) -> Any:
        key = f"{problem.units.graph.model} {problem.devices}"
        if key not in known:
            known[key] = solve(problem, costs, *limits)
        return known[key]

    return solve_once


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
    """The environment of a problem, with repair."""
    if devices == DRAWN:
        kwargs = make_problem(int(model.rpartition("-seed")[2])).env_kwargs()
        return SimulatedEnv(**kwargs, observe_graph=False, repair=True)
    return make_workload_env(
        data / "latency-inputs" / f"{model}.json",
        devices=devices,
        schedule="giph" if devices == FOUR else BY_RANK,
        granularity="op",
        observe_graph=False,
        repair=True,
    )


if __name__ == "__main__":
    main()
