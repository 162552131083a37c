"""GO trained across problems, on families that it was not trained on.

python benchmarks/go_transfer.py --folder FOLDER
python benchmarks/go_transfer.py --folder FOLDER --families translation,dilated,dense

Trains from several seeds, then places held-out test problems: at once (zero-shot), by the best of
several samples, after a short fine-tuning, and by training from scratch at equal evaluations.
Searches are run with as many seeds. All placements are repaired. A second call goes on with what
the folder holds; its table is of all rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from itertools import islice, product
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
SAMPLES = 64
"""Of a trained policy, whose best is taken."""
TRIVIAL = 1.01
"""Of the best latency: where a device alone comes so near, nothing is to be shown."""
SEARCHES = ("random-blocks", "hill-climb", "annealing", "search")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="of weights and rows")
    parser.add_argument("--trainings", type=int, default=5, help="seeds (%(default)s)")
    parser.add_argument("--updates", type=int, default=100, help="of a training (%(default)s)")
    parser.add_argument("--families", help="of test problems; those that are held out from others")
    parser.add_argument("--problems", type=int, default=4, help="held out (%(default)s)")
    parser.add_argument("--budget", type=int, default=300, help="evaluations (%(default)s)")
    parser.add_argument("--near", default="0.01,0.05,0.1", help="of the best (%(default)s)")
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
    rows = leave_out_trivial(rows)
    Console(width=140).print(tabulate(rows, [float(near) for near in options.near.split(",")]))
    print(compare_with_scratch(rows))


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
        (name, seed, lambda env, n=name, s=seed: learn(AgentSpec(n).make(env, s), budget))
        for name, seed in product(SEARCHES, range(len(files)))
    ]
    arms.append(("heft", 0, lambda env: env.evaluate(heft(env.problem, env.cost_table()))))
    for seed, file in enumerate(files):
        arms += [
            ("go, zero-shot", seed, lambda env, s=seed, f=file: answer(env, s, f)),
            (f"go, best of {SAMPLES}", seed, lambda env, s=seed, f=file: sample(env, s, f)),
            ("go, fine-tuned", seed, lambda env, s=seed, f=file: tune(env, s, f, budget)),
            ("go, from scratch", seed, lambda env, s=seed: tune(env, s, None, budget)),
            ("go, heuristics", seed, lambda env, s=seed: learn(make(env, s), budget)),
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
            "single_ms": env.get_info()["best_single_ms"],
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
    agent = make(env, seed, weights=file, policy=SEGMENTS)
    placement, _ = agent.predict(env.reset()[0], deterministic=True)
    env.evaluate(np.asarray(placement))


def sample(env: SimulatedEnv, seed: int, file: Path) -> None:
    """Evaluate the most likely placement, and samples."""
    agent = make(env, seed, weights=file, policy=SEGMENTS)
    seen = env.reset()[0]
    likely, _ = agent.predict(seen, deterministic=True)
    many = {key: np.repeat(value[None], SAMPLES - 1, axis=0) for key, value in seen.items()}
    drawn, _ = agent.predict(many)
    env.evaluate_batch(np.vstack([likely[None], drawn]))


def tune(env: SimulatedEnv, seed: int, file: Path | None, budget: int) -> None:
    """Learn on the problem, from the weights of a file or from scratch."""
    learn(make(env, seed, weights=file, policy=SEGMENTS), budget)


def tabulate(rows: list[Row], nears: list[float]) -> Table:
    """Score over the best latency of the table, and how soon it is nearly reached."""
    best = {name_of(row): min_ms(rows, name_of(row)) for row in rows}
    within = [f"within {100 * near:.0f} %" for near in nears]
    table = Table("arm", "first", "score", *within, "CPU s")
    for arm in arms_of(rows):
        mine = [row for row in rows if row["arm"] == arm and row["curve"]]
        first, last = ([best[name_of(row)] / row["curve"][at][1] for row in mine] for at in (0, -1))
        table.add_row(
            arm,
            describe(mean_of_each_seed(mine, first)),
            describe(mean_of_each_seed(mine, last)),
            *(describe_reached(mine, best, near) for near in nears),
            f"{np.median([row['cpu_s'] for row in mine]):.1f}",
        )
    return table


def leave_out_trivial(rows: list[Row]) -> list[Row]:
    """Rows of problems that no device alone nearly solves."""
    best = {name: min_ms(rows, name) for name in map(name_of, rows)}
    return [row for row in rows if row["single_ms"] > TRIVIAL * best[name_of(row)]]


def mean_of_each_seed(rows: list[Row], values: list[float]) -> list[float]:
    """The means of the values of rows, one for each seed."""
    seeds = np.array([row["seed"] for row in rows])
    return [float(np.mean(np.array(values)[seeds == seed])) for seed in np.unique(seeds)]


def describe_reached(rows: list[Row], best: dict[Any, float], near: float) -> str:
    """How many runs come near to the best latency; the median of evaluations if most do."""
    found = [soon(row, (1.0 + near) * best[name_of(row)]) for row in rows]
    reached = sum(n is not None for n in found)
    median = np.median([np.inf if n is None else n for n in found])
    return f"{reached}/{len(rows)}" + (f", {median:.0f}" if np.isfinite(median) else "")


def compare_with_scratch(rows: list[Row]) -> str:
    """How soon fine-tuning reaches what training from scratch has at its end."""
    arms = {(row["arm"], name_of(row), row["seed"]): row for row in rows}
    pairs = [
        (arms["go, fine-tuned", *key], row)
        for (arm, *key), row in arms.items()
        if arm == "go, from scratch"
    ]
    found = [soon(tuned, scratch["curve"][-1][1]) for tuned, scratch in pairs]
    reached = [n for n in found if n is not None]
    return (
        f"fine-tuning reaches the end of training from scratch in {len(reached)} of {len(pairs)} "
        f"runs, then after {np.median(reached):.0f} evaluations (median)"
    )


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
