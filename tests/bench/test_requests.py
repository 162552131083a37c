from __future__ import annotations

import json
import re
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placement_gym
from agents.requests import LEARNERS, TEACHER, train
from placement_gym.base.errors import UserError
from placement_gym.bench import requests
from placement_gym.bench.compare import compare
from placement_gym.bench.report.comparison import comparison_table
from placement_gym.bench.study.runner import describe_study, run_study, summarize_study
from placement_gym.bench.study.spec import Study
from placement_gym.cli.main import main
from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.plans import PlanStage, PlanTable, ServingPlan
from placement_gym.envs.online.rules import RULES, make_rule
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.models.members import Member

ENV = "DevicePlacementOnline-v0"


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """File of plans of one model on two devices; a comparison plays two traces."""
    monkeypatch.setattr(requests, "N_TRACES", 2)
    own = [
        ServingPlan(name, (PlanStage(name, ms, 5.0, 10),))
        for name, ms in (("CPU", 9.0), ("GPU", 6.0))
    ]
    table = PlanTable((Member("a"),), (DeviceSpec("CPU"), DeviceSpec("GPU")), (tuple(own),))
    table.save(tmp_path / "plans.json")
    return str(tmp_path / "plans.json")


def make_study(plans: str, *agents: str, **fields: Any) -> Study:
    kwargs = {"plans": plans, "requests": 20, "rate": 1.0}
    return Study(env=ENV, models=["a"], agents=agents, budget=70, env_kwargs=kwargs, **fields)


def test_policies_play_the_same_traces_and_are_kept(plans: str, tmp_path: Path) -> None:
    study = make_study(plans, *RULES, *LEARNERS, seeds=1)
    rows = run_study(study, tmp_path, quiet=True)
    assert [row["agent"] for row in rows] == [*RULES, *LEARNERS]
    assert all(len(row["log_slowdown"]) == 2 and row["commit"] and row["processor"] for row in rows)
    by_load, shortest = rows[1], rows[2]
    assert shortest["log_slowdown"] < by_load["log_slowdown"]
    assert run_study(study, tmp_path, quiet=True) == rows
    for row in rows:
        assert (tmp_path / f"{row['agent']}-{row['key']}.zip").exists() == (
            row["agent"] not in RULES
        )
        assert PlanTable.load(tmp_path / row["plans"]) == PlanTable.load(plans)


def test_policies_take_turns_at_each_trace_in_real_time(
    plans: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = requests.list_tasks(make_study(plans, "by-load", "shortest-completion"))
    env, play_trace = OnlineEnv(["a"], **tasks[0].env_kwargs), requests.play_trace
    alone = [row["log_slowdown"] for row in requests.run(tasks, env, tmp_path)]
    numbers: list[int] = []

    def play(env: OnlineEnv, policy: Any, number: int) -> list[float]:
        numbers.append(number)
        return play_trace(env, policy, number)

    monkeypatch.setattr(requests, "N_MEASURED", 2)
    monkeypatch.setattr(requests, "play_trace", play)
    env.measured = True
    assert [row["log_slowdown"] for row in requests.run(tasks, env, tmp_path)] == alone
    assert numbers == [0, 0, 1, 1]


def test_the_command_and_a_study_share_their_rows(
    plans: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [f"plans={json.dumps(plans)}", "requests=20", "rate=1.0"]
    command = ["compare", "--env", ENV, "-m", "a", "--agents", "by-load,shortest-completion"]
    sets = [word for setting in settings for word in ("--set", setting)]
    out = ["--out", str(tmp_path / "out"), "--quiet"]
    assert main([*command, *sets, "--budget", "70", *out]) == 0
    assert "gain (95 %)" in capsys.readouterr().out
    make_study(plans, "by-load", "shortest-completion").save(tmp_path / "study.yaml")
    assert main(["bench", "run", str(tmp_path / "study.yaml"), *out]) == 0
    assert len((tmp_path / "out" / requests.ROWS).read_text().splitlines()) == 2


@pytest.mark.parametrize("name", ["ppo", "clone", "clone-ppo"])
def test_a_training_never_uses_more_than_its_budget(
    name: str, plans: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, steps = OnlineEnv.step, count()
    monkeypatch.setattr(OnlineEnv, "step", lambda *args: (next(steps), step(*args))[1])
    for budget in (16, 100, 1000):
        steps = count()
        train(name, 0, budget, plans=plans, requests=20)
        assert next(steps) <= budget


def test_a_clone_chooses_as_its_teacher(plans: str) -> None:
    env = OnlineEnv(plans=plans, trace="validation", rate=0.6)
    teacher, clone = make_rule(TEACHER, env), train("clone", 0, 3000, plans=plans)
    (seen, _), over, same = env.reset(options={"trace": 0}), False, []
    while not over:
        plan = int(teacher.predict(seen)[0])
        same.append(plan == clone.predict(seen, deterministic=True)[0])
        seen, _, _, over, _ = env.step(plan)
    assert np.mean(same) > 0.8


@pytest.mark.parametrize(
    ("fields", "message"), [({"agents": ["hsdag"]}, "rollouts"), ({"budget": 15}, "at least 16")]
)
def test_what_cannot_be_compared_is_refused(
    plans: str, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    from dataclasses import replace

    with pytest.raises(UserError, match=message):
        run_study(replace(make_study(plans, "static", "ppo"), **fields), tmp_path, quiet=True)
    assert not (tmp_path / requests.ROWS).exists()


@pytest.mark.parametrize(
    ("words", "name"),
    [(["--pin", "inputs=CPU"], "constraints"), (["--granularity", "op"], "granularity")],
)
def test_options_of_placements_are_refused(
    words: list[str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "--env", ENV, "-m", "a", "--out", str(tmp_path), *words]) == 2
    assert re.search(f"argument of {ENV} must be one of .* not '{name}'", capsys.readouterr().err)


def test_python_compares_policies_as_the_command_does(plans: str, tmp_path: Path) -> None:
    agents, kwargs = ["static", "shortest-completion"], {"plans": plans, "requests": 20}
    document = placement_gym.compare(
        "a", agents, env_id=ENV, out=tmp_path, env_kwargs=kwargs, quiet=True, budget=70, seeds=2
    )
    assert [row["agent"] for row in document["rows"]] == agents
    study = Study(ENV, ["a"], agents, 70, env_kwargs=kwargs)
    assert placement_gym.run_study(study, tmp_path, quiet=True) == document["rows"]
    with pytest.raises(UserError, match="leave out the executor's options"):
        placement_gym.run_study(study, tmp_path, workers=2, quiet=True)


def test_functions_of_a_benchmark_take_the_same_arguments() -> None:
    for shared in (compare, comparison_table, run_study, describe_study, summarize_study):
        own = signature(getattr(requests, shared.__name__)).parameters.values()
        given = signature(shared).parameters.values()
        assert [(one.name, one.default) for one in own] == [
            (one.name, one.default) for one in given
        ]


def test_each_entry_of_devices_has_a_table(
    plans: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {"models": ["a"], "agents": ["by-load", "shortest-completion"], "budget": 70}
    kwargs = {"plans": plans, "requests": 20, "rate": 1.0}
    text = json.dumps(
        {"env": ENV, "devices": ["cpu+igpu", "cpu+dgpu"], "env_kwargs": kwargs} | fields
    )
    (tmp_path / "two.yaml").write_text(text)
    assert main(["bench", "run", str(tmp_path / "two.yaml"), "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert [printed.count(name) for name in ("a on cpu+igpu", "a on cpu+dgpu")] == [1, 1]
    assert main(["bench", "run", str(tmp_path / "two.yaml"), "--out", "x", "--workers", "2"]) == 2
