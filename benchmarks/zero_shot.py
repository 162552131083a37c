"""Generated problems of the test split: the sequential placer against solvers and searches.

    python benchmarks/zero_shot.py --problems 40 --rows rows.jsonl

Prints geometric means of latency over HEFT's of what needs no evaluation, or one; and scores, best
known latency over latency, of searches. "plan followed, untrained" is where training begins. The
best known is the least in the rows, which all runs with the same file add to. Problems come from
``graph.families``; two families are in no training.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agents.sequential import Network, Sequential
from agents.sequential.agent import TRAINED_NOISE, WEIGHTS
from agents.sequential.checkpoint import load_network
from agents.sequential.plans import make_plans
from placement_gym.arrays import FloatArray, IntArray
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.entry_points import SimulatedEnv
from placement_gym.graph.families.problems import HELD_OUT, SEEDS, SampledProblem, make_problem
from placement_gym.solvers.fill import fill_in_order
from placement_gym.solvers.list_scheduling import heft, m_etf

INFEASIBLE = 0.1
"""Speed-up over the reference that counts for what is infeasible."""
ANSWERS: dict[str, Callable[[Any, Any], IntArray]] = {
    "heft": heft,
    "m-etf": m_etf,
    "fill-in-order": fill_in_order,
    "multilevel, one answer": lambda problem, costs: make_plans(problem, costs)[0],
}
SEARCHES = {"hill-climb": 500, "annealing": 500, "multilevel": 500}
BUDGETS = (1, 100, 500)

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=40, help="(%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="skip that many (%(default)s)")
    parser.add_argument("--split", default="test", choices=SEEDS, help="(%(default)s)")
    parser.add_argument("--rows", type=Path, required=True, help="file of rows, continued")
    parser.add_argument("--checkpoints", default=str(WEIGHTS), help="files, comma-separated")
    parser.add_argument("--noise", type=float, default=TRAINED_NOISE, help="(%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = load_rows(options.rows)
    networks = {
        "trained" if file == str(WEIGHTS) else Path(file).stem: load_network(file)
        for file in options.checkpoints.split(",")
    }
    begin = SEEDS[options.split].start + options.first
    seeds = range(begin, begin + options.problems)
    with options.rows.open("a") as file:
        for seed in seeds:
            for row in run_problem(make_problem(seed), networks, options.noise, rows):
                rows[key(row)] = row
                print(json.dumps(row), file=file, flush=True)
    chosen = [row for row in rows.values() if row["problem"] in seeds]
    print_answers(chosen)
    print_scores(chosen)


def load_rows(path: Path) -> dict[str, Row]:
    """Rows of earlier runs."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {key(row): row for row in map(json.loads, lines)}


def key(row: Row) -> str:
    return f"{row['problem']} {row['arm']} {row['evaluations']}"


def run_problem(
    sampled: SampledProblem,
    networks: dict[str, Network],
    noise: float,
    known: dict[str, Row],
) -> list[Row]:
    """Rows that are not known yet."""
    rows: list[Row] = []
    env = SimulatedEnv(**sampled.env_kwargs(), observe_graph=False)
    limited = int(np.isfinite(env.problem.limits_bytes).sum())
    stated = {
        "problem": sampled.seed,
        "family": sampled.family,
        "held_out": sampled.family in HELD_OUT,
        "semantics": next(iter(sampled.semantics.values())),
        "units": env.problem.n_units,
        "devices": len(sampled.devices),
        "limited": limited,
    }

    def add(arm: str, evaluations: int, speedup: float, infeasible: float) -> None:
        reached = {"arm": arm, "evaluations": evaluations, "speedup": max(speedup, INFEASIBLE)}
        rows.append({**stated, **reached, "infeasible": infeasible})

    def missing(arm: str, evaluations: int) -> bool:
        return f"{sampled.seed} {arm} {evaluations}" not in known

    for arm, solve in ANSWERS.items():
        if missing(arm, 0):
            placement = solve(env.problem, env.cost_table())
            speedup, feasible = env.backend.evaluate_batch(placement[None])
            add(arm, 0, float(speedup[0]) if feasible[0] else 0.0, float(not feasible[0]))
    followed = Network()
    followed.follow_plans()
    unlearned = {"untrained": Network(), "plan followed, untrained": followed}
    for arm, network in {**unlearned, **networks}.items():
        if missing(arm, BUDGETS[-1]):
            for row in run_sequential(env, network, 1.0 if arm == "untrained" else noise):
                add(arm, *row)
    for arm, budget in SEARCHES.items():
        if missing(arm, budget):
            repairing = SimulatedEnv(**sampled.env_kwargs(), observe_graph=False, repair=True)
            agent = AgentSpec(arm).make(repairing, 0)
            agent.learn(budget)
            add(arm, budget, agent.best_speedup, 0.0)
    return rows


def run_sequential(
    env: SimulatedEnv, network: Network, noise: float
) -> list[tuple[int, float, float]]:
    """(evaluations, best speed-up, share of infeasible samples so far) at each budget."""
    agent, counted, rows = Sequential(env, 0, network, noise), [], []
    evaluate = agent.evaluate

    def count(assignments: IntArray) -> tuple[IntArray, FloatArray]:
        evaluated, speedups = evaluate(assignments)
        counted.extend(speedups < 1e-6)
        return evaluated, speedups

    agent.evaluate = count  # type: ignore[method-assign]
    for more in np.diff([0, *BUDGETS]):
        agent.learn(int(more))
        rows.append((agent.evaluations, agent.best_speedup, float(np.mean(counted))))
    return [(budget, *row[1:]) for budget, row in zip(BUDGETS, rows, strict=True)]


def print_answers(rows: list[Row]) -> None:
    """Latency over HEFT's: geometric means over all problems and over groups of them."""
    heft_speedup = {row["problem"]: row["speedup"] for row in rows if row["arm"] == "heft"}
    groups: dict[str, Callable[[Row], bool]] = {
        "all": lambda row: True,
        "held-out families": lambda row: row["held_out"],
        "limits, 3 devices": lambda row: row["limited"] > 0 and row["devices"] >= 3,
        "no limits": lambda row: row["limited"] == 0,
        **{
            name: lambda row, name=name: row["semantics"] == name  # type: ignore[misc]
            for name in ("list", "event", "serial", "throughput")
        },
    }
    first = [row for row in rows if row["evaluations"] <= 1]
    print("latency over HEFT's, geometric mean; problems; infeasible first placements")
    for arm in dict.fromkeys(row["arm"] for row in first):
        own = [row for row in first if row["arm"] == arm]
        shares = []
        for name, belongs in groups.items():
            ratios = [
                np.log(heft_speedup[row["problem"]] / row["speedup"]) for row in own if belongs(row)
            ]
            if ratios:
                shares.append(f"{name} {np.exp(np.mean(ratios)):.3f} ({len(ratios)})")
        infeasible = int(sum(row["infeasible"] for row in own))
        print(f"{arm:24} {', '.join(shares)}; {infeasible}")


def print_scores(rows: list[Row]) -> None:
    """Scores at each budget, and how often the best classic search is reached."""
    problems = sorted({row["problem"] for row in rows})
    best = {p: max(row["speedup"] for row in rows if row["problem"] == p) for p in problems}
    classic = {
        p: max(row["speedup"] for row in rows if row["problem"] == p and row["arm"] in SEARCHES)
        for p in problems
    }
    print("score; at least the best of the searches; infeasible samples")
    arms = dict.fromkeys((row["arm"], row["evaluations"]) for row in rows)
    for arm, evaluations in sorted(arms, key=lambda found: (found[1], found[0])):
        own = [row for row in rows if (row["arm"], row["evaluations"]) == (arm, evaluations)]
        scores = np.array([row["speedup"] / best[row["problem"]] for row in own])
        error = scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else 0.0
        reached = np.mean([row["speedup"] >= 0.999999 * classic[row["problem"]] for row in own])
        infeasible = np.mean([row["infeasible"] for row in own])
        print(
            f"{arm:24} {evaluations:4} {scores.mean():.3f} +- {error:.3f} "
            f"reached {reached:.2f} infeasible {infeasible:.4f}"
        )


if __name__ == "__main__":
    main()
