"""GO: what training on 80,000 operators costs, and how often planted optima are found.

python benchmarks/go.py scale --updates 3
python benchmarks/go.py planted
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

import placement_gym  # noqa: F401  registers the environments
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.costs.planted import planted_ms
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.graph.planted import Plan
from placement_gym.solvers.bounds import load_ms

DEVICES = ["CPU", *({"name": f"GPU.{i}", "weight_share": 0.4} for i in range(2))]
ENV = "DevicePlacementSim-v0"
PLACEMENTS = 20
"""Of an update."""
UPDATES = 100
"""Of a whole training."""
TRAINED: dict[str, dict[str, Any]] = {
    "gdp": {"preset": "search", "n_epochs": 1},
    "gdp, activations kept": {"preset": "search", "n_epochs": 1, "policy": {"recompute": False}},
    "gdp, gcn": {"preset": "gcn", "n_epochs": 1},
}
"""Options for 80,000 operators: one step on each rollout."""
OPTIONS: dict[str, dict[str, Any]] = {
    "gdp": {"preset": "search"},
    "gdp, gcn": {"preset": "gcn"},
}
"""Options for small graphs."""
PLANTED = ("heft", "multilevel", "annealing", "gdp", "gdp, gcn")
FOUND = 1.0 + 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    scale = commands.add_parser("scale", help="CPU time and memory of updates")
    scale.add_argument("--model", default="family-translation-80000-seed0", help="%(default)s")
    scale.add_argument("--updates", type=int, default=3, help="measured (%(default)s)")
    scale.add_argument("--train", choices=TRAINED, help=argparse.SUPPRESS)
    planted = commands.add_parser("planted", help="how often agents find a planted optimum")
    planted.add_argument("--slots", default="8,32,128", help="for each device (%(default)s)")
    planted.add_argument("--budget", type=int, default=1000, help="evaluations (%(default)s)")
    planted.add_argument("--seeds", type=int, default=5, help="of graphs (%(default)s)")
    planted.add_argument("--agents", default=";".join(PLANTED), help="%(default)s")
    options = parser.parse_args()
    if options.command == "scale" and options.train:
        print(json.dumps(train(options.model, options.train, options.updates)))
        return
    commands_by_name = {"scale": show_scale, "planted": show_planted}
    Console(width=120).print(commands_by_name[options.command](options))


def make_env(model: str, **kwargs: Any) -> DevicePlacementEnv:
    kwargs = {"granularity": "op", "schedule": "list", "observe_graph": False, **kwargs}
    return placement_env(gym.make(ENV, model=model, **kwargs))


def show_scale(options: argparse.Namespace) -> Table:
    """Each agent in a process of its own, beside what does not learn."""
    table = Table("agent", "latency ms", "evaluations", "CPU s", "CPU s an update", "peak GiB")
    for name in TRAINED:
        command = [sys.executable, __file__, "scale", "--train", name]
        command += ["--model", options.model, "--updates", str(options.updates)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(done.stdout.strip().splitlines()[-1])
        whole = row["first_s"] + (UPDATES - 1) * row["update_s"]
        table.add_row(
            f"{name}, {row['evaluations']} of {UPDATES * PLACEMENTS} evaluations",
            f"{row['latency_ms']:.1f}",
            str(row["evaluations"]),
            f"{whole:.0f} for {UPDATES} updates, extrapolated",
            f"{row['update_s']:.1f}",
            f"{row['peak_gib']:.1f}",
        )
    env = make_env(options.model, devices=DEVICES, repair=True)
    for name in ("single-device", "heft", "annealing", "multilevel"):
        table.add_row(name, *search(env, name, PLACEMENTS * (options.updates + 1)), "", "")
    bound = load_ms(env.problem, env.cost_table())
    table.add_row("bound (loads)", f"{bound:.1f}", "", "", "", "")
    return table


def train(model: str, name: str, updates: int) -> dict[str, float]:
    """Make a few updates; returns CPU seconds, peak memory and the best latency."""
    started = process_time()
    env = make_env(model, devices=DEVICES, repair=True)
    agent: Any = AgentSpec("gdp", TRAINED[name]).make(env, 0)
    best = Best(env)
    made_s, spent = process_time() - started, []
    for _ in range(updates + 1):
        started = process_time()
        agent.learn(PLACEMENTS, reset_num_timesteps=False)
        spent.append(process_time() - started)
    return {
        "made_s": made_s,
        "first_s": spent[0],
        "update_s": float(np.mean(spent[1:])),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "evaluations": PLACEMENTS * (updates + 1),
        "latency_ms": env.reference.reference_ms / best.speedup,
    }


class Best:
    """Remembers the highest speed-up that an environment has evaluated.

    Args:
        env: Its backend is watched from now on.
    """

    def __init__(self, env: DevicePlacementEnv) -> None:
        self.speedup, self.evaluate = 0.0, env.backend.evaluate_batch
        env.backend.evaluate_batch = self.watch  # type: ignore[method-assign]

    def watch(self, assignments: Any) -> Any:
        speedup, feasible = found = self.evaluate(assignments)
        self.speedup = max(self.speedup, float(np.where(feasible, speedup, 0.0).max()))
        return found


def search(env: DevicePlacementEnv, name: str, budget: int) -> tuple[str, str, str]:
    """Latency, evaluations and CPU seconds of an agent that does not learn."""
    started = process_time()
    agent: Any = AgentSpec(name).make(env, 0)
    if hasattr(agent, "learn"):
        agent.learn(budget)
    spent, found = process_time() - started, env.backend.evaluate(agent.assignment)
    evaluations = str(getattr(agent, "evaluations", 0))
    return f"{found.latency_ms:.1f}", evaluations, f"{spent:.0f}"


def show_planted(options: argparse.Namespace) -> Table:
    """How often each agent finds the optimum, and its mean distance to it."""
    names = options.agents.split(";")
    table = Table("graph", "operators", *names, title=f"{options.budget} evaluations")
    for devices in (2, 3):
        for slots in map(int, options.slots.split(",")):
            graphs = [f"planted-{devices}x{slots}-seed{seed}" for seed in range(options.seeds)]
            ratios = [[place_planted(g, name, options.budget) for g in graphs] for name in names]
            cells = [
                f"{sum(r < FOUND for r in of)}/{len(of)}, +{100 * (np.mean(of) - 1):.1f} %"
                for of in ratios
            ]
            table.add_row(f"planted-{devices}x{slots}", str(devices * slots), *cells)
            print(f"planted-{devices}x{slots}:", "; ".join(cells), file=sys.stderr, flush=True)
    return table


def place_planted(model: str, name: str, budget: int) -> float:
    """The best latency that an agent finds, over the planted one."""
    devices = [{"name": f"GPU.{i}"} for i in range(Plan.parse(model).devices)]
    env = make_env(model, devices=devices)
    best = Best(env)
    agent: Any = AgentSpec(name.partition(",")[0], OPTIONS.get(name, {})).make(env, 0)
    if hasattr(agent, "learn"):
        agent.learn(budget)
        latency_ms = env.reference.reference_ms / best.speedup
    else:
        latency_ms = env.backend.evaluate(agent.assignment).latency_ms
    return latency_ms / planted_ms(model, env.cost_table())


if __name__ == "__main__":
    main()
