"""List sampling as an agent: budgets, seeds, resuming, and what it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from published import DATA

from agents.list_sampling import ListSampling
from placement_gym.bench.run.agent_run import run_agent
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.env import placement_env

RESNET = DATA / "latency-inputs/LayerGraphs/resnet50_inference.json"
BY_RANK = {"preset": "list", "order": "priority"}
LIMITED = {"model": str(RESNET), "devices": "1cpu+2acc@0.3", "granularity": "op"}


def environment(**kwargs: Any) -> gym.Env[Any, Any]:
    return gym.make("placement_gym:DevicePlacementSim-v0", **kwargs)


@pytest.fixture(scope="module")
def limited() -> gym.Env[Any, Any]:
    """A published workload whose accelerators hold little."""
    return environment(**LIMITED, schedule=BY_RANK)


def test_it_evaluates_as_many_placements_as_it_may(tmp_path: Path) -> None:
    bench_env = BenchEnv.make("DevicePlacementSim-v0", {"model": "resnet"}, tmp_path)
    row, _ = run_agent(bench_env, AgentSpec("list-sampling"), seed=0, budget=131)
    assert row.error == ""
    assert row.evaluations == 131


@pytest.mark.parametrize("changes", [0.0, 0.5])
def test_no_placement_is_evaluated_twice_and_none_is_infeasible(
    limited: gym.Env[Any, Any], changes: float
) -> None:
    base = placement_env(limited)
    counted = BudgetedBackend(base.backend, 400)
    base.backend = counted
    try:
        ListSampling(limited, 0, changes=changes).learn(400)
    finally:
        base.backend = counted.inner
    assert len({one.assignment.tobytes() for one in counted.history}) == 400
    assert not any(one.error for one in counted.history)


def test_it_ends_when_it_finds_nothing_new() -> None:
    search = ListSampling(environment(model="tiny"), 0).learn(10**6)
    assert 20 < search.evaluations <= 2**search.problem.n_units
    assert search.learn(100).evaluations == search.evaluations


def test_the_same_seed_finds_the_same_placement(limited: gym.Env[Any, Any]) -> None:
    first, second, other = (ListSampling(limited, seed).learn(60) for seed in (0, 0, 1))
    assert (first.assignment == second.assignment).all()
    assert (first.assignment != other.assignment).any()


def test_learning_in_two_parts_goes_on_where_it_stopped(limited: gym.Env[Any, Any]) -> None:
    search = ListSampling(limited, 0)
    halfway = search.learn(60).best_speedup
    assert search.learn(60).best_speedup >= halfway
    assert search.evaluations == 120


def test_changes_improve_on_samples_and_samples_on_list_scheduling(
    limited: gym.Env[Any, Any],
) -> None:
    greedy = ListSampling(limited, 0).learn(1).best_speedup
    sampled, changed = (
        np.mean([ListSampling(limited, seed, changes=share).learn(400).best_speedup
                 for seed in range(3)])
        for share in (0.0, 0.5)
    )  # fmt: skip
    assert sampled > 1.2 * greedy
    assert changed > sampled


@pytest.mark.parametrize("schedule", ["serial", "list"])
def test_it_searches_under_any_schedule(schedule: str) -> None:
    env = environment(model="resnet", devices="cpu+2dgpu", schedule=schedule)
    assert ListSampling(env, 0).learn(100).best_speedup > 1.0


def test_it_survives_one_device() -> None:
    env = environment(model="synthetic-layered-16", devices=["CPU"])
    assert ListSampling(env, 0).learn(30).evaluations == 1
