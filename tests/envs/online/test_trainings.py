# White-box tests of envs.online
"""Trainings and rules of the benchmark of requests under load."""

from __future__ import annotations

import sys
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placement_gym.envs.online import OnlineEnv, PlanStage, PlanTable, ServingPlan
from placement_gym.envs.online.rules import RULES, make_rule
from placement_gym.hardware import DeviceSpec
from placement_gym.models import Member

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark, with plans of one model on two devices."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    sys.modules.pop("common", None)
    module = import_module("online")
    monkeypatch.setattr(module, "load_plans", make_plans)
    monkeypatch.setattr(module, "TRACES", 2)
    return module


def make_plans() -> PlanTable:
    own = [
        ServingPlan(name, (PlanStage(name, ms, 5.0, 10),))
        for name, ms in (("CPU", 9.0), ("GPU", 6.0))
    ]
    return PlanTable((Member("a"),), (DeviceSpec("CPU"), DeviceSpec("GPU")), (tuple(own),))


def test_policies_play_the_same_traces_once(online: Any, tmp_path: Path) -> None:
    agents = [*RULES, *online.LEARNERS]
    jobs, path = [*online.plan(agents, [1.0], seeds=1, budget=70)], tmp_path / "rows.jsonl"
    run_missing = import_module("common").run_missing
    rows = run_missing(path, jobs, online.play)
    assert [row["agent"] for row in rows] == agents
    assert all(len(row["log_slowdown"]) == 2 and row["commit"] and row["processor"] for row in rows)
    by_load, shortest = rows[agents.index("by-load")], rows[agents.index("shortest-completion")]
    assert shortest["log_slowdown"] < by_load["log_slowdown"]
    assert not any(shortest["other"])
    lines = path.read_text()
    run_missing(path, jobs, online.play)
    assert path.read_text() == lines


@pytest.mark.parametrize("name", ["ppo", "clone", "clone-ppo"])
def test_a_training_never_uses_more_than_its_budget(
    online: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, steps = OnlineEnv.step, count()
    monkeypatch.setattr(OnlineEnv, "step", lambda *args: (next(steps), step(*args))[1])
    for budget in (16, 100, 1000):
        steps = count()
        online.train(name, 0, budget, plans=make_plans(), requests=20)
        assert next(steps) <= budget


def test_a_clone_chooses_as_its_teacher(online: Any) -> None:
    plans = make_plans()
    env = OnlineEnv(plans=plans, trace="validation", rate=0.6)
    teacher = make_rule(import_module("online_trainings").TEACHER, env)
    clone = online.train("clone", 0, 3000, plans=plans)
    (seen, _), over, same = env.reset(options={"trace": 0}), False, []
    while not over:
        plan = int(teacher.predict(seen)[0])
        same.append(plan == clone.predict(seen, deterministic=True)[0])
        seen, _, _, over, _ = env.step(plan)
    assert np.mean(same) > 0.8
