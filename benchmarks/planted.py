"""How often agents find planted optima: graphs whose best placement is known by construction.

python benchmarks/planted.py --rows docs/results/go-planted-rows.jsonl --slots 8,32,128

A second call goes on where the file of rows ends.
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

import placement_gym  # noqa: F401  registers the environments
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached
from placement_gym.costs.planted import planted_ms
from placement_gym.env import placement_env
from placement_gym.graph.planted import Plan

Row = dict[str, Any]
ENV = "DevicePlacementSim-v0"
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "heft": ("heft", {}),
    "search": ("search", {}),
    "annealing": ("annealing", {}),
    "random-blocks": ("random-blocks", {}),
    "hsdag": ("hsdag", {}),
    "gdp": ("gdp", {}),
    "gdp, heuristics": ("gdp", {"begin_with": "heuristics", "imitate": 10.0}),
    "gdp, gcn": ("gdp", {"gcn": True}),
}
FOUND = 1.0 + 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True, help="file of results")
    parser.add_argument("--devices", default="2,3", help="%(default)s")
    parser.add_argument("--slots", default="8,32,128,512", help="for each device (%(default)s)")
    parser.add_argument("--budget", type=int, default=300, help="evaluations (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="of graphs (%(default)s)")
    parser.add_argument("--agents", default=";".join(AGENTS), help="%(default)s")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.rows.open()] if options.rows.exists() else []
    done = {(row["model"], row["agent"], row["budget"]) for row in rows}
    sizes = product(options.slots.split(","), options.devices.split(","), range(options.seeds))
    models = [f"planted-{devices}x{slots}-seed{seed}" for slots, devices, seed in sizes]
    for model, agent in product(models, options.agents.split(";")):
        if (model, agent, options.budget) in done:
            continue
        rows.append(place(model, agent, options.budget))
        with options.rows.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    Console(width=140).print(tabulate(rows))


def place(model: str, agent: str, budget: int) -> Row:
    """The best latency that an agent has evaluated, over the planted one."""
    devices = [{"name": f"GPU.{i}"} for i in range(Plan.parse(model).devices)]
    made = gym.make(
        ENV, model=model, devices=devices, granularity="op", schedule="list", observe_graph=False
    )
    env, started = placement_env(made), process_time()
    env.backend = counted = BudgetedBackend(env.backend, budget)
    name, kwargs = AGENTS[agent]
    searcher: Any = AgentSpec(name, kwargs).make(env, Plan.parse(model).seed)
    try:
        if hasattr(searcher, "learn"):
            searcher.learn(budget)
        else:
            env.backend.evaluate(searcher.assignment)
    except BudgetReached:
        pass
    latency_ms = env.reference.reference_ms / counted.curve[-1][2]
    return {
        "model": model,
        "operators": env.problem.n_units,
        "agent": agent,
        "budget": budget,
        "evaluations": counted.evaluations,
        "ratio": latency_ms / planted_ms(model, env.cost_table()),
        "cpu_s": round(process_time() - started, 2),
    }


def tabulate(rows: list[Row]) -> Table:
    """How often each agent finds the optimum, and its mean distance to it."""
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    table = Table("graph", "budget", *agents)
    sizes = dict.fromkeys((row["model"].rpartition("-")[0], row["budget"]) for row in rows)
    for size, budget in sizes:
        mine = [
            row
            for row in rows
            if (row["model"].rpartition("-")[0], row["budget"]) == (size, budget)
        ]
        cells = [[row["ratio"] for row in mine if row["agent"] == name] for name in agents]
        table.add_row(size, str(budget), *map(describe, cells))
    return table


def describe(ratios: list[float]) -> str:
    """How many are optimal, and the mean distance to the optimum."""
    if not ratios:
        return ""
    found = sum(ratio < FOUND for ratio in ratios)
    return f"{found}/{len(ratios)}, +{100 * (np.mean(ratios) - 1):.1f} %"


if __name__ == "__main__":
    main()
