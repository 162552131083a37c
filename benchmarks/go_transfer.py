"""GO trained across problems, on families that it was not trained on.

python benchmarks/go_transfer.py --trainings 3 --updates 100 --problems 6 --folder FOLDER

Trains from several seeds, then places held-out test problems: at once (zero-shot), after a short
fine-tuning, and by training from scratch at equal evaluations; beside the sequential placer of the
package and searches. All placements are repaired. A second call goes on with what the folder holds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy import stats

from agents.common.weights import save_weights
from agents.gdp.agent import make
from agents.gdp.training import make_trainer
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached
from placement_gym.entry_points import SimulatedEnv
from placement_gym.graph.families.problems import (
    HELD_OUT,
    SEEDS,
    SampledProblem,
    make_problem,
)
from placement_gym.solvers.list_scheduling import heft

Row = dict[str, Any]
SEGMENTS = {"segment": 256, "memory": 256}
PROBLEMS, EPISODES = 4, 8
"""Of an update of the training, and placements of each."""
SEARCHES = ("random-blocks", "hill-climb", "annealing", "multilevel", "sequential")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="of weights and rows")
    parser.add_argument("--trainings", type=int, default=3, help="seeds (%(default)s)")
    parser.add_argument("--updates", type=int, default=100, help="of a training (%(default)s)")
    parser.add_argument("--families", help="of test problems; those that are held out from others")
    parser.add_argument("--problems", type=int, default=6, help="held out (%(default)s)")
    parser.add_argument("--budget", type=int, default=100, help="evaluations (%(default)s)")
    parser.add_argument("--near", type=float, default=0.01, help="counts as reached (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    files = [train(options.folder, seed, options.updates) for seed in range(options.trainings)]
    path = options.folder / "rows.jsonl"
    rows = [json.loads(line) for line in path.open()] if path.exists() else []
    done = {(row["problem"], row["family"], row["arm"], row["seed"]) for row in rows}
    for problem in held_out_problems(options.problems, options.families):
        for row in place(problem, files, options.budget, done):
            rows.append(row)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
    Console(width=120).print(tabulate(rows, options.near))


def train(folder: Path, seed: int, updates: int) -> Path:
    """Train on the split ``train``; returns the file of weights."""
    path = folder / f"go-{updates}-{seed}.safetensors"
    if path.exists():
        return path
    started = process_time()
    trainer = make_trainer(seed, PROBLEMS, EPISODES, policy=SEGMENTS)
    trainer.learn(updates * PROBLEMS * EPISODES)
    spent = round(process_time() - started, 1)
    save_weights(trainer, path, {"seed": seed, "updates": updates, "cpu_s": spent})
    print(f"training {seed}: {spent} CPU s", flush=True)
    return path


def held_out_problems(n: int, families: str | None) -> list[SampledProblem]:
    """The first test problems of families that are not trained on."""
    if families is not None:
        return [make_problem(seed, families.split(",")) for seed in SEEDS["test"][:n]]
    drawn = (make_problem(seed) for seed in SEEDS["test"])
    return list(islice((problem for problem in drawn if problem.family in HELD_OUT), n))


def place(problem: SampledProblem, files: list[Path], budget: int, done: set[Any]) -> Iterator[Row]:
    """Rows of all arms on a problem that are not done yet."""
    arms: list[tuple[str, int, Callable[[Any], Any]]] = [
        (name, 0, lambda env, name=name: learn(AgentSpec(name).make(env, 0), budget))
        for name in SEARCHES
    ]
    arms.append(("heft", 0, lambda env: env.evaluate(heft(env.problem, env.cost_table()))))
    for seed, file in enumerate(files):
        arms += [
            ("go, zero-shot", seed, lambda env, s=seed, f=file: answer(env, s, f)),
            ("go, fine-tuned", seed, lambda env, s=seed, f=file: tune(env, s, f, budget)),
            ("go, from scratch", seed, lambda env, s=seed: tune(env, s, None, budget)),
        ]
    for arm, seed, run in arms:
        if (problem.seed, problem.family, arm, seed) in done:
            continue
        env = SimulatedEnv(**problem.env_kwargs(), observe_graph=False, repair=True)
        env.backend = counted = BudgetedBackend(env.backend, budget)
        started = process_time()
        run(env)
        reached = [(n, env.reference.reference_ms / speedup) for n, _, speedup in counted.curve]
        yield {
            "problem": problem.seed,
            "family": problem.family,
            "units": env.problem.n_units,
            "arm": arm,
            "seed": seed,
            "evaluations": counted.evaluations,
            "curve": reached,
            "cpu_s": round(process_time() - started, 2),
        }


def learn(agent: Any, budget: int) -> None:
    """Search until the budget is spent."""
    try:
        agent.learn(budget)
    except BudgetReached:
        return


def answer(env: SimulatedEnv, seed: int, file: Path) -> None:
    """Evaluate the most likely placement."""
    agent = make(env, seed, "search", weights=file, policy=SEGMENTS)
    placement, _ = agent.predict(env.reset()[0], deterministic=True)
    env.evaluate(np.asarray(placement))


def tune(env: SimulatedEnv, seed: int, file: Path | None, budget: int) -> None:
    """Learn on the problem, from the weights of a file or from scratch."""
    learn(make(env, seed, "search", weights=file, policy=SEGMENTS), budget)


def tabulate(rows: list[Row], near: float) -> Table:
    """Score over the best latency of the table, and how soon it is nearly reached."""
    best = {name_of(row): min_ms(rows, name_of(row)) for row in rows}
    seeds = {arm: {r["seed"] for r in rows if r["arm"] == arm} for arm in arms_of(rows)}
    table = Table(
        "arm", "first", "score", f"within {100 * near:.0f} %", "evaluations to it", "CPU s"
    )
    for arm, of_arm in seeds.items():
        mine = [row for row in rows if row["arm"] == arm and row["curve"]]
        scores = [
            float(np.mean([best[name_of(r)] / r["curve"][-1][1] for r in mine if r["seed"] == s]))
            for s in sorted(of_arm)
        ]
        first = np.mean([best[name_of(row)] / row["curve"][0][1] for row in mine])
        evaluations = (soon(row, (1.0 + near) * best[name_of(row)]) for row in mine)
        reached = [n for n in evaluations if n is not None]
        table.add_row(
            arm,
            f"{first:.3f}",
            describe(scores),
            f"{len(reached)}/{len(mine)}",
            f"{np.median(reached):.0f}" if reached else "",
            f"{np.mean([row['cpu_s'] for row in mine]):.1f}",
        )
    return table


def arms_of(rows: list[Row]) -> list[str]:
    """Names of arms in their order."""
    return list(dict.fromkeys(row["arm"] for row in rows))


def name_of(row: Row) -> tuple[int, str]:
    """Seed and family of the problem of a row."""
    return row["problem"], row["family"]


def min_ms(rows: list[Row], problem: tuple[int, str]) -> float:
    """The lowest latency of any arm on a problem."""
    of_problem = [row for row in rows if name_of(row) == problem and row["curve"]]
    return float(min(row["curve"][-1][1] for row in of_problem))


def soon(row: Row, target_ms: float) -> int | None:
    """Evaluations until a latency is reached; None if it never is."""
    return next((int(n) for n, latency_ms in row["curve"] if latency_ms <= target_ms), None)


def describe(values: list[float]) -> str:
    """Mean and half-width of its 95 % interval."""
    n = len(values)
    if n < 2:
        return f"{np.mean(values):.3f}"
    half = stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)
    return f"{np.mean(values):.3f} +- {half:.3f}"


if __name__ == "__main__":
    main()
