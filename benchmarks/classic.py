"""Classic placers on published workloads with little memory, beside the best known latencies."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import gmean

import placement_gym  # noqa: F401  registers the environments
from placement_gym.bench.resolve import AgentSpec
from placement_gym.env import DevicePlacementEnv, placement_env

KNOWN_MS = {
    "1cpu+1acc@0.5": (411.357, 853.270, 1313.033, 486.763, 1797.161),
    "1cpu+2acc@0.3": (287.221, 808.297, 1166.777, 486.728, 1458.474),
}
WORKLOADS = (
    "LayerGraphs/bert24_inference",
    "LayerGraphs/resnet50_inference",
    "LayerGraphs/inceptionv3_inference",
    "OperatorGraphs/bert_l-3_inference",
    "OperatorGraphs/resnet50_inference",
)
ONCE = ("heft", "critical-path", "m-topo", "m-etf", "milp")
SEARCHES = (
    AgentSpec("random-blocks"),
    AgentSpec("hill-climb"),
    AgentSpec("annealing"),
    AgentSpec("annealing", {"start": "best"}),
    AgentSpec("cross-entropy"),
    AgentSpec("genetic"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="inputs of dnn-partitioning")
    parser.add_argument("--budgets", default="500,10000", help="evaluations (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="how many (%(default)s)")
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    runs = [(AgentSpec(name), 0) for name in ONCE]
    runs += [(agent, budget) for budget in budgets for agent in SEARCHES]
    for devices, known_ms in KNOWN_MS.items():
        table = Table("placer", "evaluations", *map(short, WORKLOADS), "geometric mean", "seconds")
        table.title = (
            f"{devices}, schedule list by rank: latency over the best known (median of seeds)"
        )
        paths = [options.data / "latency-inputs" / f"{name}.json" for name in WORKLOADS]
        envs = [made(path, devices) for path in paths]
        for agent, budget in track(runs, devices):
            started = perf_counter()
            seeds = range(options.seeds if budget else 1)
            latency_ms = [[latency(env, agent, seed, budget) for seed in seeds] for env in envs]
            ratios = np.median(latency_ms, axis=1) / known_ms
            table.add_row(
                agent.label,
                str(budget or "-"),
                *(f"{ratio:.3f}" for ratio in ratios),
                f"{gmean(ratios):.3f}",
                f"{(perf_counter() - started) / len(seeds) / len(envs):.2f}",
            )
        Console(width=130).print(table)


def short(workload: str) -> str:
    kind, name = workload.split("/")
    return f"{kind.removesuffix('Graphs').lower()} {name.removesuffix('_inference')}"


def made(path: Path, devices: str) -> DevicePlacementEnv:
    """Nodes placed one by one, as the best known values are: colour classes are not kept."""
    env: gym.Env[Any, Any] = gym.make(
        "DevicePlacementSim-v0",
        model=str(path),
        devices=devices,
        granularity="op",
        schedule={"preset": "list", "order": "priority"},
    )
    return placement_env(env)


def latency(env: DevicePlacementEnv, agent: AgentSpec, seed: int, budget: int) -> float:
    """Of what the agent predicts after ``budget`` evaluations; infinite if it does not fit."""
    placer = agent.make(env, seed)
    if budget:
        placer.learn(budget)
    observation, _ = env.reset(seed=seed)
    measurement = env.backend.evaluate(placer.predict(observation)[0])
    return measurement.latency_ms if measurement.feasible else float("inf")


if __name__ == "__main__":
    main()
