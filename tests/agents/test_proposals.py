"""The agents whose placements a solver proposes: multilevel and neighbourhood."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

import placement_gym  # noqa: F401  registers the environments
from agents.proposals import ProposalSearch
from placement_gym.bench.run.agent_run import run_agent
from placement_gym.bench.run.agents import AgentSpec, load_agent
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.env import placement_env

AGENTS = (AgentSpec("multilevel"), AgentSpec("neighbourhood", {"programs": 0}))
ALL = pytest.mark.parametrize("spec", AGENTS, ids=lambda spec: spec.name)
LIMITED = ["CPU", {"name": "GPU", "weight_share": 0.4}]


def environment(model: str = "inception", **kwargs: object) -> gym.Env:
    return gym.make("DevicePlacementSim-v0", model=model, devices=LIMITED, **kwargs)


def made(spec: AgentSpec, env: gym.Env, seed: int = 0) -> ProposalSearch:
    return load_agent(spec.name)(env, seed, **spec.kwargs)


@ALL
def test_a_run_evaluates_as_many_placements_as_it_may(spec: AgentSpec, tmp_path: Path) -> None:
    bench_env = BenchEnv.make("DevicePlacementSim-v0", {"model": "synthetic-layered-60"}, tmp_path)
    row, _ = run_agent(bench_env, spec, seed=0, budget=61)
    assert row.error == ""
    assert row.evaluations == 61


@pytest.mark.slow
@ALL
def test_learning_in_parts_is_learning_at_once(spec: AgentSpec) -> None:
    env = environment()
    whole, parts = made(spec, env), made(spec, env)
    parts.horizon = 60
    whole.learn(60)
    for part in (7, 30, 23):
        parts.learn(part)
    assert parts.evaluations == whole.evaluations == 60
    assert (parts.assignment == whole.assignment).all()
    assert parts.best_speedup == whole.best_speedup


@ALL
def test_the_prediction_is_feasible_and_what_was_evaluated(spec: AgentSpec) -> None:
    env = environment()
    agent = made(spec, env).learn(40)
    base = placement_env(env)
    assert base.problem.infeasibility(agent.assignment) == ""
    assert base.backend.evaluate(agent.assignment).speedup == pytest.approx(agent.best_speedup)


@ALL
@pytest.mark.parametrize("devices", [["CPU"], ["CPU", "GPU"]])
def test_few_units_and_one_device_are_no_trouble(spec: AgentSpec, devices: list[str]) -> None:
    env = gym.make("DevicePlacementSim-v0", model="synthetic-layered-16", devices=devices)
    assert made(spec, env).learn(40).evaluations == 40


@ALL
def test_time_may_be_limited(spec: AgentSpec) -> None:
    agent = load_agent(spec.name)(environment(), 0, time_limit_s=0.0, **spec.kwargs)
    assert agent.learn(100).evaluations == 0


@ALL
@pytest.mark.slow
def test_large_problems_need_no_observed_graph(spec: AgentSpec) -> None:
    env = environment("synthetic-layered-400", observe_graph=False, schedule="list")
    agent = made(spec, env).learn(10)
    assert agent.best_speedup > placement_env(env).singles.fastest().speedup
