"""Published agents and their parts on workloads with little memory, compared with classic placers.

    python benchmarks/published.py run --data DIR --rows FILE --problems test --budget 200
    python benchmarks/published.py tables --rows FILE --problems test --budget 200
    python benchmarks/published.py samples --rows FILE --problems parts --arms "placeto;rnn"
    python benchmarks/published.py find
    python benchmarks/published.py doppler --graphs compute_graph --data DIR

DIR holds the inputs of dnn-partitioning. ``run`` appends one line a run to FILE and does what is
missing in it; ``--arms`` limits what is run now. ``--budget "5 s"`` runs every agent for five CPU
seconds in place of evaluations. All placements are repaired. A score is the best latency known over
the latency. ``samples`` compares how soon two arms reach the same.

``find`` lists large problems with tight limits, and ``doppler`` writes DOPPLER's published graphs
(that folder of github.com/xinyuyao/Doppler) as workloads of DIR; see ``published_problems``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import (
    Meter,
    Row,
    best_known_ms,
    describe_env,
    describe_run,
    make_parser,
    read_rows,
    run_missing,
    search,
)
from published_problems import (
    DRAWN,
    PROBLEMS,
    TWIN,
    convert_graphs,
    find_tight_problems,
    make_problem_env,
)
from summaries import (
    ProblemName,
    Scores,
    average,
    compare_scores,
    find_interval,
    group_by,
    print_table,
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
    parser.add_argument("command", choices=("run", "tables", "samples", "find", "doppler"))
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--graphs", type=Path, help="folder of DOPPLER's text files")
    parser.add_argument("--rows", type=Path, default=Path("published.jsonl"), help="%(default)s")
    parser.add_argument("--problems", default="test", choices=PROBLEMS, help="(%(default)s)")
    parser.add_argument("--arms", default="", help="labels, separated by ; (all)")
    parser.add_argument("--budget", default="200", help="evaluations, or '5 s' (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="of each arm (%(default)s)")
    parser.add_argument("--against", default="hsdag", help="arm to compare with (%(default)s)")
    options = parser.parse_args()
    options.budget = int(options.budget) if options.budget.isdigit() else options.budget
    torch.set_num_threads(1)
    if options.command == "run":
        run_all(options)
    elif options.command == "find":
        find_tight_problems()
    elif options.command == "doppler":
        convert_graphs(options.graphs, options.data / "latency-inputs" / "doppler")
    else:
        show = print_tables if options.command == "tables" else print_samples
        rows = [complete(row) for row in read_rows(options.rows)]
        show(rows, PROBLEMS[options.problems], options)


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


def complete(row: Row) -> Row:
    """A row as ``run`` writes it; latencies of the example's rows are over the reference's."""
    if "ms" in row:
        return row
    curve = [(n, 1.0 / speedup) for n, _, speedup in row["curve"]]
    return row | {"devices": TWIN, "curve": curve}


def print_tables(
    rows: list[Row], problems: Sequence[ProblemName], options: argparse.Namespace
) -> None:
    """Print the arms that ran on all problems with this budget, best first."""
    best = find_best(rows)
    here = [
        row
        for row in rows
        if (row["model"], row["devices"]) in problems and row["budget"] == options.budget
        if not options.arms or row["arm"] in options.arms.split(";")
    ]
    runs = {arm: mine for (arm,), mine in group_by(here, "arm").items()}
    scores = {arm: score_runs(mine, best) for arm, mine in runs.items()}
    against = scores.get(options.against, {})
    complete = [arm for arm in runs if {key[:2] for key in scores[arm]} == set(problems)]
    print_table(
        {
            "arm": arm,
            **compare_scores(scores[arm], against, options.against, problems),
            **rate_predictions(runs[arm], best),
            "CPU s": f"{np.mean([row['cpu_s'] for row in runs[arm]]):.1f}",
            "runs": len(runs[arm]),
            **{name_column(one): f"{average(scores[arm], [one]):.3f}" for one in problems},
        }
        for arm in sorted(complete, key=lambda arm: -average(scores[arm], problems))
    )


def name_column(problem: ProblemName) -> str:
    """A short name, with the devices where they are not those of the problem's seed."""
    model, devices = problem
    name = Path(model).name.removeprefix("family-").removesuffix("_inference")
    return name if devices.startswith(DRAWN) else f"{name} {devices}"


def find_best(rows: list[Row]) -> dict[ProblemName, float]:
    """The least latency known of each problem, in ms."""
    best: dict[ProblemName, float] = {}
    for row in rows:
        problem = (row["model"], row["devices"])
        known = row["best_known_ms"] or np.inf
        best[problem] = min(best.get(problem, np.inf), row["ms"], known)
    return best


def score_runs(rows: list[Row], best: dict[ProblemName, float]) -> Scores:
    """Score of each run by model, devices and seed."""
    return {
        (row["model"], row["devices"], row["seed"]): best[row["model"], row["devices"]] / row["ms"]
        for row in rows
    }


def rate_predictions(rows: list[Row], best: dict[ProblemName, float]) -> dict[str, str]:
    """Mean score of the predictions, 0 for infeasible ones, and how many of them were feasible.

    Runs by time make none.
    """
    if any(isinstance(row["budget"], str) for row in rows):
        return {"greedy": "-", "feasible": "-"}
    feasible = sum(row["greedy_ms"] is not None for row in rows)
    each = [best[row["model"], row["devices"]] / (row["greedy_ms"] or np.inf) for row in rows]
    return {"greedy": f"{np.mean(each):.3f}", "feasible": f"{feasible} of {len(rows)}"}


class Pair(NamedTuple):
    """Evaluations of two runs until the worse of their bests, and the difference of these, ms."""

    first: int
    second: int
    behind_ms: float


def print_samples(
    rows: list[Row], problems: Sequence[ProblemName], options: argparse.Namespace
) -> None:
    """Print how many evaluations two arms need to reach the worse of their bests."""
    arms = options.arms.split(";")
    curves = {
        (row["arm"], row["model"], row["devices"], row["seed"]): row["curve"]
        for row in rows
        if row["budget"] == options.budget and row["curve"]
    }
    pairs: dict[str, list[Pair]] = {Path(model).name: [] for model, _ in problems}
    for problem in problems:
        for seed in range(options.seeds):
            both = [curves.get((arm, *problem, seed)) for arm in arms]
            if all(both):
                pairs[Path(problem[0]).name].append(count_samples(*both))
    everything = [pair for mine in pairs.values() for pair in mine]
    print_table(
        {"problem": name, **describe_samples(mine, *arms)}
        for name, mine in (pairs | {"all": everything}).items()
    )


def count_samples(first: list[Any], second: list[Any]) -> Pair:
    """Compare two curves of evaluations and best latencies."""
    goal = max(first[-1][1], second[-1][1])
    one, other = (
        next(point[0] for point in curve if point[1] <= goal) for curve in (first, second)
    )
    return Pair(one, other, first[-1][1] - second[-1][1])


def describe_samples(pairs: Sequence[Pair], one: str, other: str) -> Row:
    """Medians, the geometric mean of the ratio, and how often the first one's best is better."""
    columns = (one, other, f"{other} over {one} (95 %)", f"{one} better", "runs")
    if len(pairs) < 2:
        return dict(zip(columns, ("-", "-", "-", "-", len(pairs)), strict=True))
    ratio = np.log([pair.second / pair.first for pair in pairs])
    low, high = np.exp(find_interval(ratio))
    medians = (f"{np.median([pair[arm] for pair in pairs]):.0f}" for arm in (0, 1))
    over = f"{np.exp(ratio.mean()):.2f} ({low:.2f}, {high:.2f})"
    better = sum(pair.behind_ms < 0.0 for pair in pairs)
    return dict(zip(columns, (*medians, over, better, len(pairs)), strict=True))


if __name__ == "__main__":
    main()
