"""Published agents and their parts on workloads with little memory, compared with classic placers.

    python benchmarks/published.py run --data DIR --rows FILE --problems test --budget 200
    python benchmarks/published.py find
    python benchmarks/published.py doppler --graphs compute_graph --data DIR

DIR holds the inputs of dnn-partitioning. ``run`` appends one line a run to FILE and does what is
missing in it; ``--arms`` limits what is run now. ``--budget "5 s"`` runs every agent for five CPU
seconds in place of evaluations. All placements are repaired. ``published_tables.py`` prints tables.

``find`` lists large problems with tight limits, and ``doppler`` writes DOPPLER's published graphs
(that folder of github.com/xinyuyao/Doppler) as workloads of DIR; see ``published_problems``.
"""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path
from typing import Any

import torch
from common import (
    Meter,
    Row,
    best_known_ms,
    describe_env,
    describe_run,
    make_parser,
    run_missing,
    search,
)
from published_problems import (
    PROBLEMS,
    convert_graphs,
    find_tight_problems,
    make_problem_env,
)

from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import play_episode

ENDLESS, TRIAL = 10**9, 100
"""Evaluations of a run that ends by its seconds, and of one that only compiles what it needs."""
STARTED = {"begin_with": "heuristics"}

LEARNED, GROUPS = ("rnn", "hdp", "post", "placeto", "doppler", "gdp", "hsdag"), "graph-groups"
CLASSIC = ("heft", "random-blocks", "hill-climb", "search", "critical-path")
HSDAG_PARTS: dict[str, dict[str, Any]] = {
    "grouping": {"depth": 0},
    "encoder": {"layers": 0},
    "times": {"cost_weight": 0.0},
}


def make_arms() -> dict[str, AgentSpec]:
    """Every arm by its label: agents, the papers' forms, and parts left out."""
    arms = {name: AgentSpec(name) for name in (*CLASSIC, *LEARNED, GROUPS)}
    for name in LEARNED:
        if name != "doppler":  # its 4,000 episodes before the budget take most of an hour
            arms[f"{name}, paper"] = AgentSpec(name, {"preset": "paper"})
    for name in (*LEARNED, GROUPS):
        if name not in ("hdp", "hsdag"):  # these place groups of their own
            arms[f"{name}, heuristics"] = AgentSpec(name, STARTED)
    for variant in ("joint", "ppo"):
        arms[f"post, {variant}"] = AgentSpec("post", {"variant": variant})
    arms["hill-climb, quick"] = AgentSpec("hill-climb", {"start": "quick"})
    for part, change in HSDAG_PARTS.items():
        arms[f"hsdag, no {part}"] = AgentSpec("hsdag", {"policy": change})
    return arms


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("command", choices=("run", "find", "doppler"))
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--graphs", type=Path, help="folder of DOPPLER's text files")
    parser.add_argument("--rows", type=Path, default=Path("published.jsonl"), help="%(default)s")
    parser.add_argument("--problems", default="test", choices=PROBLEMS, help="(%(default)s)")
    parser.add_argument("--arms", default="", help="labels, separated by ; (all)")
    parser.add_argument("--budget", default="200", help="evaluations, or '5 s' (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="of each arm (%(default)s)")
    options = parser.parse_args()
    options.budget = int(options.budget) if options.budget.isdigit() else options.budget
    torch.set_num_threads(1)
    if options.command == "run":
        run_all(options)
    elif options.command == "find":
        find_tight_problems()
    else:
        convert_graphs(options.graphs, options.data / "latency-inputs" / "doppler")


def run_all(options: argparse.Namespace) -> None:
    """Do the runs that the file lacks, seed by seed."""
    arms = make_arms()
    chosen = options.arms.split(";") if options.arms else list(arms)

    @cache
    def warm_up(arm: str) -> None:
        env = make_problem_env(options.data, *PROBLEMS[options.problems][0])
        search(env, BudgetedBackend(env.backend, TRIAL), arms[arm], 0, TRIAL)

    def run(model: str, devices: str, arm: str, seed: int, budget: int | str, role: str) -> Row:
        if isinstance(budget, str):
            warm_up(arm)
        env = make_problem_env(options.data, model, devices)
        row = run_arm(env, arms[arm], seed, budget)
        print(
            f"{role}, {model}, {arm}, {seed}: {row['ms']:.4f} ms, {row['cpu_s']:.0f} s", flush=True
        )
        return row

    jobs = (
        {"model": model, "devices": devices, "arm": arm, "seed": seed,
         "budget": options.budget, "role": options.problems}
        for seed in range(options.seeds)
        for model, devices in PROBLEMS[options.problems]
        for arm in chosen
    )  # fmt: skip
    run_missing(options.rows, jobs, run)


def run_arm(env: DevicePlacementEnv, spec: AgentSpec, seed: int, budget: int | str) -> Row:
    """One run: the best latency that it evaluated, and that of its prediction.

    A run that ends by its seconds makes no prediction.
    """
    timed = isinstance(budget, str)
    seconds = (float(budget.split()[0]),) if isinstance(budget, str) else ()
    clock = Meter(env.backend, cpu_seconds=seconds)
    meter = BudgetedBackend(env.backend, budget) if isinstance(budget, int) else clock
    agent, error = None, ""
    try:
        agent = search(env, meter, spec, seed, ENDLESS if timed else meter.budget)
    except Exception as failure:
        spent = meter.evaluations >= meter.budget
        error = "" if spent else f"{type(failure).__name__}: {failure}"
    cpu_s, reference_ms = clock.cpu_s, env.reference.reference_ms
    greedy = None if timed or agent is None else play_episode(env, agent, seed=seed)
    best = meter.curve[-1][-1] if meter.curve else 0.0
    about = describe_run(describe_env(env), spec, seed, budget, meter)
    return about | {
        "ms": reference_ms / max(best, 1e-9),
        "greedy_ms": greedy["latency_ms"] if greedy is not None and greedy["feasible"] else None,
        "curve": [(point[0], reference_ms / point[-1]) for point in meter.curve],
        "evaluations": meter.evaluations,
        "infeasible": meter.n_infeasible,
        "best_known_ms": best_known_ms(env),
        "n_units": env.problem.n_units,
        "cpu_s": cpu_s,
        "error": error or about["error"],
    }


if __name__ == "__main__":
    main()
