"""Placement, priority and fusion decided together, against the placement alone.

python benchmarks/joint.py --rows joint.jsonl

Each agent gets the same evaluations; a second call goes on where the file of rows ends.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

import placement_gym  # noqa: F401  registers the environments
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.decisions import DECISIONS
from placement_gym.env import placement_env

ENV = "DevicePlacementSim-v0"
PROBLEMS = {
    "inception": "colocated",
    "bert-8": "colocated",
    "family-branching-100-seed0": "op",
}
"""Granularity of each model."""
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gdp": ("gdp", {}),
    "gdp, heuristics": ("gdp", {"begin_with": "heuristics", "imitate": 10.0}),
    "gdp, REINFORCE": ("gdp", {"algorithm": "reinforce"}),
    "annealing": ("annealing", {}),
    "annealing from random": ("annealing", {"start": "random"}),
}
SETS = {
    "placement": DECISIONS[:1],
    "with priority": DECISIONS[:2],
    "with fusion": DECISIONS[::2],
    "all three": DECISIONS,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="file of results")
    parser.add_argument("--models", default=",".join(PROBLEMS), help="%(default)s")
    parser.add_argument("--agents", default=";".join(AGENTS), help="%(default)s")
    parser.add_argument("--decisions", default=";".join(SETS), help="%(default)s")
    parser.add_argument("--devices", default="cpu+2dgpu", help="%(default)s")
    parser.add_argument("--budget", type=int, default=400, help="evaluations (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="%(default)s")
    options = parser.parse_args()
    known = [json.loads(line) for line in options.rows.open()] if options.rows.exists() else []
    done = {(row["model"], row["decisions"], row["agent"], row["seed"]) for row in known}
    wanted = product(options.models.split(","), options.decisions.split(";"))
    for (model, decisions), seed in product(wanted, range(options.seeds)):
        for agent in options.agents.split(";"):
            if (model, decisions, agent, seed) in done:
                continue
            row = run(model, decisions, agent, seed, options.devices, options.budget)
            known.append(row)
            with options.rows.open("a") as rows:
                rows.write(json.dumps(row) + "\n")
    Console(width=120).print(tabulate(known))


def run(
    model: str, decisions: str, agent: str, seed: int, devices: str, budget: int
) -> dict[str, Any]:
    """The best latency that an agent has evaluated within its budget."""
    made = gym.make(
        ENV,
        model=model,
        granularity=PROBLEMS.get(model, "op"),
        schedule="event",
        devices=devices,
        observe_graph=False,
        decisions=SETS[decisions],
    )
    env, started = placement_env(made, joint=True), process_time()
    env.backend = counted = BudgetedBackend(env.backend, budget)
    name, kwargs = AGENTS[agent]
    searcher: Any = AgentSpec(name, kwargs).make(env, seed)
    searcher.learn(budget)
    return {
        "model": model,
        "decisions": decisions,
        "agent": agent,
        "seed": seed,
        "budget": budget,
        "evaluations": counted.evaluations,
        "latency_ms": env.reference.reference_ms / counted.curve[-1][2],
        "cpu_s": round(process_time() - started, 1),
    }


def tabulate(rows: list[dict[str, Any]]) -> Table:
    """Mean latencies over seeds with their 95 % intervals by Student's t."""
    sets = [name for name in SETS if any(row["decisions"] == name for row in rows)]
    table = Table("model", "agent", *sets, "CPU s")
    for model, agent in dict.fromkeys((row["model"], row["agent"]) for row in rows):
        mine = [row for row in rows if (row["model"], row["agent"]) == (model, agent)]
        cells = [[r["latency_ms"] for r in mine if r["decisions"] == name] for name in sets]
        spent = np.mean([row["cpu_s"] for row in mine])
        table.add_row(model, agent, *map(describe, cells), f"{spent:.0f}")
    return table


def describe(values: list[float]) -> str:
    """Mean and half-width of its 95 % interval."""
    n = len(values)
    if n < 2:
        return f"{np.mean(values):.3f}" if n else ""
    half = stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)
    return f"{np.mean(values):.3f} +- {half:.3f}"


if __name__ == "__main__":
    main()
