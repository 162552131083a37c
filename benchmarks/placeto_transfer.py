"""Placeto trained on graphs of a family, and asked about others of it.

python benchmarks/placeto_transfer.py --folder FOLDER --rows rows.jsonl

Trains from several seeds on graphs of the training split, then places held-out graphs of the same
family: at once (zero-shot), after fine-tuning, and by training from scratch at equal evaluations;
beside HEFT and searches. One CPU and two GPUs that hold 40 % of the weights each; all
placements are repaired. A second call does what the file of rows lacks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from go_transfer import learn
from published_tables import average, compare
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from agents.common.weights import save_weights
from agents.placeto.agent import make
from agents.placeto.transfer import train_policy
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.entry_points import SimulatedEnv
from placement_gym.graph.families.problems import SEEDS
from placement_gym.solvers.list_scheduling import heft
from placement_gym.wrappers import PerUnit

Row = dict[str, Any]
DEVICES = ["CPU", *({"name": f"GPU.{i}", "weight_share": 0.4} for i in range(2))]
SETTING = {"devices": DEVICES, "granularity": "op", "schedule": "list", "repair": True}
PADDED = {"max_nodes": 160, "max_edges": 400, "observe_graph": False, "reward": "improvement"}
POLICY = {"devices": True, "critic": True}
"""PPO trains with a critic, which fine-tuning keeps but does not use."""
TRAINED, HELD_OUT = range(40, 80, 4), range(42, 82, 8)
"""Sizes of the graphs."""
SCRATCH = "from scratch"
Arm = tuple[str, int, Callable[[SimulatedEnv], Any]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="of weights")
    parser.add_argument("--rows", type=Path, required=True, help="file of rows")
    parser.add_argument("--families", default="recurrent,attention", help="%(default)s")
    parser.add_argument("--trainings", type=int, default=5, help="seeds (%(default)s)")
    parser.add_argument("--evaluations", type=int, default=20_000, help="of one (%(default)s)")
    parser.add_argument("--budget", type=int, default=200, help="evaluations (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in options.rows.open()] if options.rows.exists() else []
    done = {(row["model"], row["arm"], row["seed"]) for row in rows}
    for family in options.families.split(","):
        for seed in range(options.trainings):
            weights = train(options.folder, family, seed, options.evaluations)
            for row in place(family, seed, weights, options.budget, done):
                rows.append(row)
                with options.rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    for family in dict.fromkeys(row["family"] for row in rows):
        Console(width=120).print(tabulate(family, [r for r in rows if r["family"] == family]))


def name_models(family: str, sizes: range, split: str) -> tuple[str, ...]:
    """Graphs of a family with the first seeds of a split."""
    return tuple(
        f"family-{family}-{n}-seed{seed}" for n, seed in zip(sizes, SEEDS[split], strict=False)
    )


def train(folder: Path, family: str, seed: int, evaluations: int) -> Path:
    """Train on graphs of the training split; returns the file of weights."""
    path = folder / f"placeto-{family}-{evaluations}-{seed}.safetensors"
    if path.exists():
        return path
    started = process_time()
    given = json.dumps({"settings": {}, "policy": POLICY, "start": "first"})
    models = name_models(family, TRAINED, "train")
    policy = train_policy(models, json.dumps(SETTING | PADDED), evaluations, seed, given)
    spent = round(process_time() - started, 1)
    about = {"family": family, "seed": seed, "evaluations": evaluations, "cpu_s": spent}
    save_weights(SimpleNamespace(policy=policy), path, about)
    print(f"{family}, training {seed}: {spent} CPU s", flush=True)
    return path


def place(
    family: str, seed: int, weights: Path, budget: int, done: set[tuple[str, str, int]]
) -> Iterator[Row]:
    """Rows of all arms on the held-out graphs that are not done yet."""
    arms: list[Arm] = [
        ("HEFT", 0, lambda env: env.evaluate(heft(env.problem, env.cost_table()))),
        search("random-blocks", seed, budget),
        search("search", 0, budget),
        ("zero-shot", seed, lambda env: answer(env, seed, weights)),
        ("fine-tuned", seed, lambda env: tune(env, seed, weights, budget)),
        (SCRATCH, seed, lambda env: tune(env, seed, None, budget)),
    ]
    for model in name_models(family, HELD_OUT, "test"):
        for arm, of_seed, run in arms:
            if (model, arm, of_seed) in done:
                continue
            done.add((model, arm, of_seed))
            env = SimulatedEnv(model=model, **SETTING, observe_graph=False)
            env.backend = counted = BudgetedBackend(env.backend, budget)
            started = process_time()
            run(env)
            yield {
                "family": family,
                "model": model,
                "arm": arm,
                "seed": of_seed,
                "units": env.problem.n_units,
                "evaluations": counted.evaluations,
                "curve": [(n, env.reference.reference_ms / best) for n, _, best in counted.curve],
                "cpu_s": round(process_time() - started, 2),
            }


def search(name: str, seed: int, budget: int) -> Arm:
    """An agent that is not trained."""
    return name, seed, lambda env: learn(AgentSpec(name).make(env, seed), budget)


def answer(env: SimulatedEnv, seed: int, weights: Path) -> None:
    """Evaluate the final placement of an episode that evaluates none, from a single device."""
    agent = make(env, seed, policy=POLICY, weights=weights)
    env.evaluate(np.asarray(agent.predict(env.reset()[0], deterministic=True)[0]))


def tune(env: SimulatedEnv, seed: int, weights: Path | None, budget: int) -> None:
    """Learn on the problem, from a trained or a random policy; episodes go on from the best."""
    learn(make(PerUnit(env, start="best"), seed, policy=POLICY, weights=weights), budget)


def tabulate(family: str, rows: list[Row]) -> Table:
    """Scores over the best latency of the table, and differences to training from scratch."""
    models = [(model, "") for model in dict.fromkeys(row["model"] for row in rows)]
    best = {model: min_ms(rows, model) for model, _ in models}
    scores: dict[str, dict[tuple[str, str, int], float]] = {}
    for row in rows:
        score = best[row["model"]] / row["curve"][-1][1] if row["curve"] else 0.0
        scores.setdefault(row["arm"], {})[row["model"], "", row["seed"]] = score
    columns = ("score", "above from scratch (95 %)", "graphs drawn, too", "evaluations", "runs")
    table = Table(family, *columns, box=MARKDOWN)
    for arm, known in scores.items():
        mine = [row for row in rows if row["arm"] == arm]
        table.add_row(
            arm,
            f"{average(known, models):.3f}",
            *compare(known, scores.get(SCRATCH, {})),
            str(max(row["evaluations"] for row in mine)),
            str(len(mine)),
        )
    return table


def min_ms(rows: list[Row], model: str) -> float:
    """The lowest latency of any arm on a graph."""
    return float(min(r["curve"][-1][1] for r in rows if r["model"] == model and r["curve"]))


if __name__ == "__main__":
    main()
