"""The search on 80,000 operators with memory limits, compared with HEFT and annealing."""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.table import Table

import placement_gym  # noqa: F401  registers the environments
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.solvers.bounds import load_ms

DEVICES = ["CPU", *({"name": f"GPU.{i}", "weight_share": 0.3} for i in range(2))]
MODELS = "synthetic-layered-80000,stacked-bert-80000"
CHUNK = 4
"""Evaluations between two looks at the clock."""
HORIZON = 2_000
"""About as many evaluations of annealing as a minute allows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=MODELS, help="%(default)s")
    parser.add_argument("--agents", default="heft,annealing,search", help="%(default)s")
    parser.add_argument("--schedules", default="list,serial", help="%(default)s")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU time (%(default)s)")
    options = parser.parse_args()
    table = Table("model", "schedule", "agent", "latency ms", "evaluations", "CPU s", "load bound")
    for model in options.models.split(","):
        for schedule in options.schedules.split(","):
            env = make_env(model, schedule)
            bound_ms = load_ms(env.problem, env.cost_table()) if schedule == "list" else None
            for agent in options.agents.split(","):
                found = place(env, AgentSpec(agent), options.seconds)
                table.add_row(model, schedule, agent, *found, f"{bound_ms:.1f}" if bound_ms else "")
    Console(width=120).print(table)


def make_env(model: str, schedule: str) -> DevicePlacementEnv:
    return placement_env(
        gym.make(
            "DevicePlacementSim-v0",
            model=model,
            devices=DEVICES,
            schedule=schedule,
            observe_graph=False,
        )
    )


def place(env: DevicePlacementEnv, spec: AgentSpec, seconds: float) -> tuple[str, str, str]:
    """Let an agent search for some CPU time; kernels are compiled before.

    Returns:
        The latency of its prediction in ms, its evaluations and the CPU time, its making included.
    """
    compile_kernels(spec)
    started = process_time()
    agent: Any = spec.make(env, 0)
    if hasattr(agent, "learn"):
        agent.horizon = HORIZON
        while process_time() - started < seconds:
            agent.learn(CHUNK)
    spent = process_time() - started
    measurement = env.backend.evaluate(agent.assignment)
    latency = f"{measurement.latency_ms:.1f}" if measurement.feasible else "infeasible"
    return latency, str(getattr(agent, "evaluations", 0)), f"{spent:.1f}"


def compile_kernels(spec: AgentSpec) -> None:
    """Run the agent once on a small problem."""
    agent: Any = spec.make(make_env("synthetic-layered-100", "list"), 0)
    if hasattr(agent, "learn"):
        agent.learn(40)


if __name__ == "__main__":
    main()
