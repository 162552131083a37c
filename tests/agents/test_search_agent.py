# White-box tests of agents.search
"""The agent ``search``: seeds, budgets, schedules, and where it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agents.search.anytime import N_TRUSTED, SearchAgent
from placement_gym.base import IntArray, UserError
from placement_gym.bench.run import AgentSpec, BenchEnv, BudgetedBackend, run_agent
from placement_gym.envs import placement_env
from placement_gym.problem.costs import PRESETS

LIMITED = ["CPU", {"name": "GPU", "weight_share": 0.4}]


def environment(model: str = "synthetic-layered-60", **kwargs: Any) -> gym.Env[Any, Any]:
    kwargs = {"devices": LIMITED, "schedule": "list", **kwargs}
    return gym.make("placement_gym:DevicePlacementSim-v0", model=model, **kwargs)


def evaluated(env: gym.Env[Any, Any], budget: int) -> list[list[int]]:
    """What an agent evaluates within a budget."""
    base = placement_env(env)
    counted = BudgetedBackend(base.backend, budget)
    with counted.count_evaluations(base):
        SearchAgent(env, 0).learn(budget)
    return [one.assignment.tolist() for one in counted.history]


def test_a_larger_budget_continues_a_smaller_one() -> None:
    env = environment()
    assert evaluated(env, 60)[:20] == evaluated(env, 20)


def test_learning_in_parts_is_learning_at_once_and_never_worse() -> None:
    env = environment()
    whole, parts = SearchAgent(env, 0).learn(60), SearchAgent(env, 0)
    reached = [parts.learn(part).best_speedup for part in (7, 30, 23)]
    assert reached == sorted(reached)
    assert parts.evaluations == whole.evaluations == 60
    assert (parts.assignment == whole.assignment).all()


def test_no_placement_is_evaluated_twice_and_none_is_infeasible() -> None:
    env = environment()
    tried = evaluated(env, 50)
    assert len({tuple(one) for one in tried}) == 50
    problem = placement_env(env).problem
    assert not any(problem.infeasibility(np.array(one)) for one in tried)


def test_it_ends_and_says_so_when_it_finds_nothing_new(bench_env: BenchEnv) -> None:
    row, _ = run_agent(bench_env, AgentSpec("search"), seed=0, budget=10_000)
    assert row.error == ""
    assert row.stopped
    assert row.evaluations < 2**7
    search = SearchAgent(bench_env.env, 0).learn(10_000)
    assert search.learn(100).evaluations == search.evaluations


@pytest.mark.parametrize("preset", PRESETS)
def test_under_every_schedule_its_model_is_the_backends(preset: str) -> None:
    objective = "throughput" if preset == "tarnawski-throughput" else "latency"
    env = environment("synthetic-layered-24", schedule=preset, objective=objective)
    agent = SearchAgent(env, 0).learn(8)
    found = placement_env(env).backend.evaluate(agent.assignment)
    assert found.feasible
    assert found.latency_ms == pytest.approx(agent.search.best.ms, rel=1e-9)
    assert found.speedup == pytest.approx(agent.best_speedup, rel=1e-9)


def test_time_may_be_limited() -> None:
    env = environment()
    assert SearchAgent(env, 0, seconds=0.0).learn(100).evaluations == 0
    limited = SearchAgent(env, 0, seconds=0.2).learn(10**6)
    before = limited.evaluations
    assert 0 < before < limited.learn(10**6).evaluations
    with pytest.raises(UserError, match="seconds must be a number of at least 0"):
        SearchAgent(env, 0, seconds=-1.0)


@pytest.mark.parametrize("devices", [["CPU"], ["CPU", "GPU"]])
def test_few_units_and_one_device_are_no_trouble(devices: list[str]) -> None:
    agent = SearchAgent(environment("synthetic-layered-16", devices=devices), 0).learn(40)
    assert 1 <= agent.evaluations <= 40


def test_other_decisions_are_refused() -> None:
    env = environment(schedule="event", decisions=("placement", "priority"))
    with pytest.raises(UserError, match=r"or use gdp, annealing"):
        SearchAgent(env, 0)


class WrongProfile:
    """A backend that measures: its latencies are not those of its cost table."""

    def __init__(self, true: Any, costs: Any) -> None:
        self.true, self.costs = true, costs

    def __getattr__(self, name: str) -> Any:
        if name in ("semantics", "inner", "true"):
            raise AttributeError(name)
        return getattr(self.true, name)

    def cost_table(self) -> Any:
        return self.costs


def misled(seed: int) -> gym.Env[Any, Any]:
    """A profile whose times are wrong by a random factor for each operator and device."""
    env = environment("inception", devices="hsdag-paper", schedule="serial")
    base = placement_env(env)
    true = base.backend
    costs = true.cost_table()
    wrong = np.exp(np.random.default_rng(seed).normal(0.0, 0.7, costs.operator_ms.shape))
    profile = replace(costs, operator_ms=costs.operator_ms * wrong)
    base.backend = WrongProfile(true, profile)  # type: ignore[assignment]
    return env


def test_measured_moves_correct_a_wrong_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(trusted: int) -> float:
        monkeypatch.setattr("agents.search.anytime.N_TRUSTED", trusted)
        return SearchAgent(misled(0), 0).learn(60).best_speedup

    corrected, trusting = reach(N_TRUSTED), reach(10**9)
    assert corrected > 1.02 * trusting


def test_measured_searches_make_every_second_placement_a_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, moved = SearchAgent(misled(0), 0), []

    def move() -> IntArray | None:
        moved.append(agent.evaluations)
        return SearchAgent.move(agent)

    monkeypatch.setattr(agent, "move", move)
    agent.learn(60)
    assert moved == list(range(N_TRUSTED + 1, 60, 2))
