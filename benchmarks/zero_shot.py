"""The sequential placer against solvers and searches, on problems that it was not trained on.

    python benchmarks/zero_shot.py --problems 40 --rows rows.jsonl
    python benchmarks/zero_shot.py --published DIR --rows published.jsonl

Generated problems of a split, or the published workloads of dnn-partitioning, whose inputs are in
DIR. Rows that the file holds are not computed again; ``zero_shot_tables.py`` prints the tables.
Every arm of the sequential placer is run with the same seed, and for each budget anew, as the
temperature falls over the budget. Seconds are of CPU time; those of kernels being compiled are left
out where an earlier problem needed them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch
from agents.sequential import Network
from agents.sequential.agent import TRAINED_NOISE, WEIGHTS
from agents.sequential.checkpoint import load_network
from agents.sequential.plans import make_plans
from agents.sequential.refined import MOVES, Refined
from agents.sequential.search import Sequential
from sequential_problems import LIMITED, TESTED, TRAINED, VALIDATED, load_workloads
from zero_shot_tables import Row, key, load_rows, print_tables

from placement_gym.arrays import IntArray
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.entry_points import SimulatedEnv
from placement_gym.env import DevicePlacementEnv
from placement_gym.graph.families.problems import HELD_OUT, SEEDS, make_problem
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

Reached = tuple[float, float, float]
"""Best speed-up, share of infeasible placements among the evaluated, and CPU seconds."""


class Case(NamedTuple):
    """A problem, what is known of it, and its environment with repair or without."""

    about: Row
    make: Callable[[bool], DevicePlacementEnv]


class Arm(NamedTuple):
    """A network, the noise of its samples, and its moves for each evaluation; 0 only samples."""

    network: Network
    noise: float
    moves: int = MOVES


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=40, help="(%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="skip that many (%(default)s)")
    parser.add_argument("--split", default="test", choices=SEEDS, help="(%(default)s)")
    parser.add_argument("--published", type=Path, help="inputs of dnn-partitioning, instead")
    parser.add_argument("--rows", type=Path, required=True, help="file of rows, continued")
    parser.add_argument("--checkpoints", default=str(WEIGHTS), help="files, comma-separated")
    parser.add_argument("--budgets", default="100,500", help="(%(default)s)")
    parser.add_argument("--moves", type=int, default=MOVES, help="(%(default)s)")
    parser.add_argument("--samples", action="store_true", help="also without moves")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = load_rows(options.rows)
    arms = make_arms(options.checkpoints.split(","), options.moves, options.samples)
    budgets = [int(budget) for budget in options.budgets.split(",")]
    begin = SEEDS[options.split].start + options.first
    cases = (
        published_cases(options.published)
        if options.published
        else [generated_case(seed) for seed in range(begin, begin + options.problems)]
    )
    with options.rows.open("a") as file:
        for case in cases:
            for row in run_case(case, arms, budgets, rows):
                rows[key(row)] = row
                print(json.dumps(row), file=file, flush=True)
    problems = {case.about["problem"] for case in cases}
    print_tables([row for row in rows.values() if row["problem"] in problems])


def make_arms(files: list[str], moves: int, samples: bool) -> dict[str, Arm]:
    """Arms by name: what prefers nothing, what follows the plan, and each training."""
    followed = Network()
    followed.follow_plans()
    arms = {
        "prefers nothing": Arm(Network(), 1.0, moves),
        "follows the plan": Arm(followed, TRAINED_NOISE, moves),
    }
    for file in filter(None, files):
        name = "of the package" if file == str(WEIGHTS) else Path(file).stem
        arms[f"trained, {name}"] = Arm(load_network(file), TRAINED_NOISE, moves)
    if moves != MOVES:
        arms = {f"{name}, {moves} moves": arm for name, arm in arms.items()}
    if samples:
        alone = {f"{name}, samples alone": arm._replace(moves=0) for name, arm in arms.items()}
        arms |= alone
    return arms


def generated_case(seed: int) -> Case:
    """A problem of ``graph.families``."""
    sampled = make_problem(seed)

    def make(repair: bool) -> DevicePlacementEnv:
        return SimulatedEnv(**sampled.env_kwargs(), observe_graph=False, repair=repair)

    semantics = next(iter(sampled.semantics.values()))
    about = {"problem": seed, "family": sampled.family, "held_out": sampled.family in HELD_OUT}
    return Case({**about, "semantics": semantics, **describe(make(False))}, make)


def published_cases(data: Path) -> list[Case]:
    """Each published workload on each set of devices with limits."""
    models = (*TRAINED, *VALIDATED, *TESTED)
    cases = []
    for name, env in load_workloads(data, models, LIMITED).items():

        def make(repair: bool, env: DevicePlacementEnv = env) -> DevicePlacementEnv:
            return DevicePlacementEnv(env.backend, observe_graph=False, repair=repair)

        about = {"problem": name, "family": "published", "held_out": True, "semantics": "list"}
        cases.append(Case({**about, **describe(env)}, make))
    return cases


def describe(env: DevicePlacementEnv) -> Row:
    """Sizes of a problem."""
    limited = int(np.isfinite(env.problem.limits_bytes).sum())
    devices = len(env.problem.devices)
    return {"units": env.problem.n_units, "devices": devices, "limited": limited}


def run_case(
    case: Case, arms: dict[str, Arm], budgets: list[int], known: dict[str, Row]
) -> Iterator[Row]:
    """Rows that are not known yet."""

    def missing(arm: str, evaluations: int) -> bool:
        return key({**case.about, "arm": arm, "evaluations": evaluations}) not in known

    def row(arm: str, budget: int, speedup: float, infeasible: float, seconds: float) -> Row:
        reached = {"arm": arm, "evaluations": budget, "speedup": max(speedup, INFEASIBLE)}
        return {**case.about, **reached, "infeasible": infeasible, "seconds": round(seconds, 3)}

    env = case.make(False)
    for answer, solve in ANSWERS.items():
        if missing(answer, 0):
            started = process_time()
            placement = solve(env.problem, env.cost_table())
            seconds = process_time() - started
            speedup, feasible = env.backend.evaluate_batch(placement[None])
            reached = float(speedup[0]) if feasible[0] else 0.0
            yield row(answer, 0, reached, float(not feasible[0]), seconds)
    for name, arm in arms.items():
        for budget in budgets:
            if missing(name, budget):
                first, best = run_arm(env, arm, budget)
                yield row(name, budget, *best)
                if missing(name, 1):
                    yield row(name, 1, *first)
    for search, budget in SEARCHES.items():
        if missing(search, budget):
            started = process_time()
            agent = AgentSpec(search).make(case.make(True), 0)
            agent.learn(budget)
            yield row(search, budget, agent.best_speedup, 0.0, process_time() - started)


def run_arm(env: DevicePlacementEnv, arm: Arm, budget: int) -> tuple[Reached, Reached]:
    """What the first evaluation reaches, and all of them."""
    started = process_time()
    counted: list[bool] = []
    agent: Sequential
    if arm.moves:
        agent = Refined(env, 0, arm.network, arm.noise, arm.moves, horizon=budget)
    else:
        agent = Sequential(env, 0, arm.network, arm.noise)
    evaluate = agent.evaluate

    def count(assignments: IntArray) -> Any:
        evaluated, speedups = evaluate(assignments)
        counted.extend(speedups < 1e-6)
        return evaluated, speedups

    def state() -> Reached:
        return agent.best_speedup, float(np.mean(counted)), process_time() - started

    agent.evaluate = count  # type: ignore[method-assign]
    agent.learn(1)
    first = state()
    agent.learn(budget - 1)
    return first, state()


if __name__ == "__main__":
    main()
