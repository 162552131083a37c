"""Every agent places for what its environment asks for, or names one that does."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agents import AGENTS, make
from agents.about import ABOUT, LEARNED, SEARCH, SOLVER, describe_goal
from placement_gym.base.arrays import BoolArray, IntArray
from placement_gym.base.errors import UserError
from placement_gym.bench.run.agent_run import run_agent
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.row_schema import Row
from placement_gym.envs.placement_env import placement_env
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.workloads.objectives import LATENCY, THROUGHPUT

MODEL: dict[str, Any] = {"model": "tiny", "devices": "cpu+igpu"}
GOALS: dict[str, dict[str, Any]] = {
    **{name: {"schedule": name} for name in PRESETS},
    "throughput": {"objective": "throughput"},
}
"""Objectives and schedules: arguments of the environment by name."""
FEW = ("serial", "throughput")
"""Where agents that only read latencies are tried in the quick suite; solvers have models."""
OPTIONS: dict[str, dict[str, Any]] = {
    "placeto-transfer": {"train_on": ["synthetic-layered-16"], "evaluations": 64, "batch_size": 64},
    "hdp": {"policy": {"hidden": 16, "decoder": 16}},
    "doppler": {"imitation": 2, "simulation": 2, "hidden": 8, "rounds": 1},
}
BUDGET = 40
SLOW = ("hdp", "doppler", "placeto", "placeto-transfer", "rnn")
OTHER_ONE = re.compile(r"\buse (?:the agent )?([a-z][a-z-]+)")


@cache
def bench_env(goal: str, env_id: str = "DevicePlacementSim-v0") -> BenchEnv:
    return BenchEnv.make(env_id, MODEL | GOALS[goal])


def all_placements(goal: str) -> IntArray:
    problem = bench_env(goal).base.problem
    return np.array(list(product(range(len(problem.devices)), repeat=problem.n_units)))


@cache
def optimum(goal: str, contiguous: bool) -> float:
    """The best speed-up over the best single device, by trying everything."""
    placements = all_placements(goal)
    if contiguous:
        placements = placements[is_contiguous(goal, placements)]
    speedup, feasible = bench_env(goal).base.backend.evaluate_batch(placements)
    return float(speedup[feasible].max() / bench_env(goal).base.best_speedups[0])


def is_contiguous(goal: str, placements: IntArray) -> BoolArray:
    """(k,) whether tensors go from one of two devices to the other, but not back."""
    source, target = bench_env(goal).base.problem.units.quotient.edge_index
    step = placements[:, target] - placements[:, source]
    return np.logical_or((step >= 0).all(axis=1), (step <= 0).all(axis=1))


def run(name: str, goal: str, tmp_path: Path) -> Row:
    env = bench_env(goal)
    options = OPTIONS.get(name, {})
    if name == "saved":
        env.base.reset()
        env.base.placement().save(tmp_path / "plan.json")
        options = {"file": str(tmp_path / "plan.json")}
    env.clear_caches()
    if name == "metis":
        pytest.importorskip("pymetis", reason="needs the extra 'metis'")
    return run_agent(env, AgentSpec(name, options), 0, BUDGET)[0]


def cases() -> list[Any]:
    found = []
    for name, goal in product(AGENTS, GOALS):
        slow = name in SLOW or (ABOUT[name].kind != SOLVER and goal not in FEW)
        found.append(pytest.param(name, goal, marks=[pytest.mark.slow] if slow else []))
    return found


@pytest.mark.filterwarnings("ignore:.*factor of.*n_steps")
@pytest.mark.parametrize(("name", "goal"), cases())
def test_agents_place_for_the_goal_or_name_one(name: str, goal: str, tmp_path: Path) -> None:
    row, about = run(name, goal, tmp_path), ABOUT[name]
    objective = bench_env(goal).base.objective
    if name.startswith("openvino") or objective not in about.objectives:
        refused = re.fullmatch(r"UserError: (.*)", row.error)
        assert refused is not None
        check_that_the_named_agent_is_accepted(refused[1], bench_env(goal).env)
        return
    assert row.error == ""
    assert row.speedup is not None
    assert row.speedup >= 1.0 - 1e-9  # the reference device, for heuristics and fixed choices
    reached = row.speedup_vs_best_single
    if about.kind in (SEARCH, LEARNED) and name != "placeto-transfer":
        assert reached is not None
        assert reached >= 0.99
    if about.optimum and schedule_of(goal) in about.model:
        assert reached == pytest.approx(optimum(goal, contiguous=name == "dp"))


def schedule_of(goal: str) -> str:
    return "load" if goal == "throughput" else PRESETS[goal].schedule


def check_that_the_named_agent_is_accepted(message: str, env: gym.Env[Any, Any]) -> None:
    named = OTHER_ONE.search(message)
    assert named is not None
    assert named[1] in AGENTS
    make(named[1], env, **OPTIONS.get(named[1], {}))


@pytest.mark.parametrize("name", [name for name in AGENTS if name not in SLOW])
def test_joint_decisions_are_made_or_refused(name: str) -> None:
    decisions = ("placement", "priority", "fusion")
    env = joint_env(decisions)
    options = {"file": "none.json"} if name == "saved" else OPTIONS.get(name, {})
    try:
        agent = make(name, env, **options)
    except UserError as error:
        if name != "saved":
            check_that_the_named_agent_is_accepted(str(error), env)
        return
    action, _ = agent.predict(env.reset(seed=0)[0])
    assert env.action_space.contains(action)


@cache
def joint_env(decisions: tuple[str, ...]) -> gym.Env[Any, Any]:
    return gym.make(
        "placement_gym:DevicePlacementSim-v0", **MODEL, schedule="event", decisions=decisions
    )


@pytest.mark.parametrize("name", ["milp", "heft", "dp", "max-load", "annealing"])
@pytest.mark.parametrize("goal", FEW)
def test_one_unit_a_step_is_for_the_same_goal(name: str, goal: str) -> None:
    env = bench_env(goal, "DevicePlacementPerUnitSim-v0")
    row, _ = run_agent(env, AgentSpec(name, OPTIONS.get(name, {})), 0, BUDGET)
    assert bool(row.error) == (env.base.objective not in ABOUT[name].objectives)
    if row.error:
        check_that_the_named_agent_is_accepted(row.error, env.env)


SHARING: dict[str, Any] = {
    "model": "tiny",
    "devices": [
        {"name": "CPU", "memory_pool": "host", "weight_share": 0.7},
        {"name": "GPU", "roofline": "iGPU", "memory_pool": "host"},
        {"name": "GPU.1"},
    ],
}
"""Two devices hold no more together than either of them alone."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if ABOUT[name].kind == LEARNED else [])
        for name in AGENTS
        if name not in ("saved", "openvino-hetero", "openvino-auto")
    ],
)
@pytest.mark.filterwarnings("ignore:.*factor of.*n_steps")
def test_agents_keep_the_limit_of_a_pool_or_name_one_that_does(name: str) -> None:
    goal = {} if LATENCY.name in ABOUT[name].objectives else {"objective": THROUGHPUT.name}
    if name == "metis":
        pytest.importorskip("pymetis", reason="needs the extra 'metis'")
    env = BenchEnv.make("DevicePlacementSim-v0", SHARING | goal)
    row = run_agent(env, AgentSpec(name, OPTIONS.get(name, {})), 0, BUDGET)[0]
    if not ABOUT[name].pools:
        refused = re.fullmatch(r"UserError: (.*)", row.error)
        assert refused is not None
        assert "memory that devices share, and pool 'host'" in refused[1]
        check_that_the_named_agent_is_accepted(refused[1], env.env)
        return
    assert row.error == ""
    problem = env.base.problem
    used = problem.memory_bytes(
        np.array([problem.device_names.index(d) for d in row.placement.values()])
    )
    assert used[0] + used[1] <= 0.7 * problem.unit_bytes.sum()


def test_a_vector_of_environments_is_refused() -> None:
    envs: Any = gym.make_vec("placement_gym:DevicePlacementSim-v0", 2, **MODEL)
    with pytest.raises(TypeError, match=r"give the agent one environment"):
        make("milp", envs)


def test_a_solver_says_what_it_places_for() -> None:
    assert "For throughput it refuses: search" in describe_goal("milp")
    assert "For latency it refuses: annealing" in describe_goal("dp")
    assert "a heuristic" in describe_goal("heft")
    assert "what its environment evaluates" in describe_goal("hsdag")
    assert placement_env(bench_env("throughput").env).objective == "throughput"
