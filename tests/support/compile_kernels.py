"""Compile kernels of schedules, agents and bounds, so that numba's cache holds them in time."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np

from placement_gym.problem.costs import Semantics

LOADS = "tarnawski-throughput"
LIMITED = ("CPU", {"name": "GPU", "weight_share": 0.5})
BY_RANK = {"preset": "list", "order": "priority"}
AGENTS: dict[str, tuple[str, Any]] = {
    "search": ("search", BY_RANK),
    "hill-climb": ("hill-climb", BY_RANK),
    "dp": ("dp", LOADS),
    "loads": ("search", LOADS),
}
"""Name -> an agent, and the schedule whose kernels it needs."""


def compile_schedule(schedule: str) -> None:
    env = gym.make("placement_gym:DevicePlacementSim-v0", model="tiny", schedule=schedule)
    env.reset(seed=0)
    backend = env.unwrapped.backend  # type: ignore[attr-defined]
    assignment = np.arange(backend.problem.n_units) % 2
    backend.evaluate(assignment)
    backend.evaluate_batch(np.stack([assignment, assignment]))
    backend.start_ms(assignment)
    backend.simulator.stages(assignment.astype(np.uint8))


def compile_bounds() -> None:
    from placement_gym.solvers.beams import Beam

    env = gym.make("placement_gym:DevicePlacementSim-v0", model="tiny", schedule="list")
    backend = env.unwrapped.backend  # type: ignore[attr-defined]
    terms = backend.problem, backend.costs, Semantics("list", contention="none")
    Beam(*terms, np.inf).search(4, np.inf, np.inf)


def compile_agent(name: str, schedule: Any) -> None:
    from placement_gym.bench.run import load_agent

    env = gym.make(
        "placement_gym:DevicePlacementSim-v0",
        model="synthetic-layered-16",
        devices=list(LIMITED),
        schedule=schedule,
        repair=name == "search",  # compiled by one of the two processes
    )
    agent = load_agent(name)(env, 0)
    if hasattr(agent, "learn"):
        env.reset(seed=0)
        agent.learn(30)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name in AGENTS:
            compile_agent(*AGENTS[name])
        elif name == "bounds":
            compile_bounds()
        else:
            compile_schedule(name)
