# White-box tests of agents
"""Agents by name on toy problems: goals, options that keep them short, and what they evaluate."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from learned import simulated

import agents
from agents.about import ABOUT
from placement_gym.base import BoolArray, IntArray
from placement_gym.bench.run import AgentSpec, BenchEnv, BudgetedBackend, Row, run_agent
from placement_gym.envs import DevicePlacementEnv
from placement_gym.problem.costs import PRESETS
from placement_gym.workloads import LATENCY

SHARED = {"model": "tiny", "devices": "cpu+igpu"}
GOALS: dict[str, dict[str, Any]] = {
    **{name: {"schedule": name} for name in PRESETS},
    "throughput": {"objective": "throughput"},
}
"""Objectives and schedules: arguments of the environment by name."""
OPTIONS: dict[str, dict[str, Any]] = {
    "placeto-transfer": {"train_on": ["synthetic-layered-16"], "evaluations": 64},
    "rnn": {"policy": {"hidden": 16, "decoder": 16}},
    "hdp": {"policy": {"hidden": 16, "decoder": 16}},
    "doppler": {"imitation": 2, "simulation": 2, "hidden": 8, "rounds": 1},
}
"""Options of agents that would take long without."""
BUDGET = 40
POOL: dict[str, Any] = {
    "model": "tiny",
    "devices": [
        {"name": "CPU", "memory_pool": "host", "weight_share": 0.7},
        {"name": "GPU", "roofline": "iGPU", "memory_pool": "host"},
        {"name": "GPU.1"},
    ],
}
"""Two devices hold no more together than either of them alone."""
TIGHT = ["CPU", *({"name": f"GPU.{i}", "weight_share": 0.2} for i in range(3))]


def record_evaluations(env: DevicePlacementEnv) -> BudgetedBackend:
    """Have an environment count and keep what it evaluates."""
    env.backend = counted = BudgetedBackend(env.backend, 10**6)
    return counted


def goal_of(name: str) -> dict[str, str]:
    return {} if LATENCY.name in ABOUT[name].objectives else {"objective": "throughput"}


def make(name: str, env: Any, seed: int = 0, **options: Any) -> Any:
    if name == "metis":
        pytest.importorskip("pymetis", reason="needs the extra 'metis'")
    return agents.make(name, env, seed, **{**OPTIONS.get(name, {}), **options})


def tight_env(**kwargs: Any) -> DevicePlacementEnv:
    """Devices of which all but the CPU hold a fifth of the model."""
    return simulated("family-attention-40-seed7", devices=TIGHT, **kwargs)


@cache
def bench_env(goal: str, env_id: str = "DevicePlacementSim-v0") -> BenchEnv:
    return BenchEnv.make(env_id, SHARED | GOALS[goal])


@cache
def optimum(goal: str, contiguous: bool) -> float:
    """The best speed-up over the best single device, by trying everything."""
    base = bench_env(goal).base
    problem = base.problem
    placements = np.array(list(product(range(len(problem.devices)), repeat=problem.n_units)))
    if contiguous:
        placements = placements[is_contiguous(goal, placements)]
    speedup, feasible, _ = base.backend.evaluate_batch(placements)
    return float(speedup[feasible].max() / base.singles.best_speedups[0])


def is_contiguous(goal: str, placements: IntArray) -> BoolArray:
    """(k,) whether tensors go from one of two devices to the other, but not back."""
    source, target = bench_env(goal).base.problem.units.quotient.edge_index
    step = placements[:, target] - placements[:, source]
    return np.logical_or((step >= 0).all(axis=1), (step <= 0).all(axis=1))


def place(name: str, env: BenchEnv, **options: Any) -> Row:
    """A row of the benchmark."""
    if name == "metis":
        pytest.importorskip("pymetis", reason="needs the extra 'metis'")
    return run_agent(env, AgentSpec(name, OPTIONS.get(name, {}) | options), 0, BUDGET)[0]


def check_refusal(error: str, env: gym.Env[Any, Any]) -> None:
    """Check that the agent that an error names is accepted."""
    named = re.search(r"\buse (?:the agent )?([a-z][a-z-]+)", error)
    assert named is not None
    assert named[1] in agents.AGENTS
    make(named[1], env)
