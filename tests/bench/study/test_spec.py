"""What a study is: its file, its tasks and their keys, the roles of its problems."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies import VALUES, study

from placement_gym.base import UserError
from placement_gym.bench.run import expand_variables
from placement_gym.bench.study import Study, run_study
from placement_gym.cli import main


def test_study_is_agents_models_devices_and_seeds() -> None:
    tasks = study().tasks()
    assert len(tasks) == 3 * 2 * 1 * 3
    assert len({task.key for task in tasks}) == len(tasks)


def test_a_key_is_everything_that_decides_a_run() -> None:
    task = study().tasks()[0]
    changes: dict[str, Any] = {
        "agent": "annealing",
        "kwargs": {"population": 3},
        "env": "DevicePlacement-v0",
        "env_kwargs": {"granularity": "op"},
        "model": "bert",
        "devices": "cpu+igpu",
        "seed": 9,
        "budget": 13,
        "score_on": {"devices": "cpu+igpu"},
    }
    keys = {replace(task, **{name: value}).key for name, value in changes.items()}
    assert len(keys | {task.key}) == len(changes) + 1
    assert set(changes) == set(vars(task))
    assert replace(task, kwargs={"b": 1, "a": 2}).key == replace(task, kwargs={"a": 2, "b": 1}).key


def test_a_budget_may_be_a_float_such_as_1e3() -> None:
    assert repr(study(budget=1e3).budget) == "1000"
    with pytest.raises(UserError, match="'budget' must be a valid integer"):
        study(budget=1.5)


def test_a_study_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("env: DevicePlacementSim-v0\nmodels: [tiny]\nagents: [random]\nbudget: 3\n")
    assert Study.load(file).all_seeds == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "env: E\nmodels: [tiny]\nagents: [random]\nbudget: 1e3",
            "'budget' must be a valid integer, not '1e3'",
        ),
        ("env: E\nmodels: [tiny]\nagents: [random]\nbudget: 3\nseeds: '5'", "seeds"),
        ("env: E\nmodels: [tiny]\nagents: [a, {name: a}]\nbudget: 3", "two agents"),
        ("models: [tiny]", "'env' is missing"),
        ("[1, 2]", r"needs an object with the keys .*'budget'"),
        ("a: [", "YAML"),
        ("budget: 0x" + "f" * 5000, r"a number of more than 64 bits \(line 1\)"),
        ("env: E\nmodels: tiny\nagents: [random]\nbudget: 3", "'models'"),
        ("env: E\nmodels: [tiny]\nagents: []\nbudget: 3", "agents"),
        ("env: E\nmodels: [tiny]\nagents: [random]\nbudget: 0", "budget"),
        ("env: E\nmodels: [tiny]\nagents: [random]\nbudget: 3\ncolour: red", "colour"),
    ],
)
def test_a_wrong_study_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        Study.load(file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": ["nobody"]}, "nobody"),
        ({"agents": [object()]}, "names its agents"),
        ({"score_on": {"env": "Elsewhere-v0"}}, "Elsewhere"),
        ({"env": "Nowhere-v0"}, "Nowhere"),
        ({"models": ["${NOT_SET_ANYWHERE}/a.json"]}, "NOT_SET_ANYWHERE"),
        ({"models": ["resnett"]}, "resnett"),
        ({"env_kwargs": {"horizon": 0}}, "horizon"),
        ({"score_on": {"devices": "cpu+igpuu"}}, "igpuu"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_does(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run_study(study(**changes), tmp_path, quiet=True)
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.parametrize(("name", "field"), [("model", "models"), ("devices", "devices")])
def test_models_and_devices_are_not_arguments_of_the_environment(name: str, field: str) -> None:
    with pytest.raises(UserError, match=f"env_kwargs names {name}: .* '{field}'"):
        study(env_kwargs={name: "tiny"})


def test_a_binary_study_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_bytes(b"\x80\x81\xff")
    with pytest.raises(UserError, match=r"study\.yaml is not a valid .* unacceptable character"):
        Study.load(tmp_path / "study.yaml")


def test_empty_fields_of_a_file_are_as_if_left_out() -> None:
    empty = study(env_kwargs=None, score_on=None, agents=[{"name": "random", "kwargs": None}])
    assert empty.tasks() == study(agents=["random"]).tasks()


def test_variables_of_a_path_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_DATA", str(tmp_path))
    assert (
        expand_variables("${SOME_DATA}/a.json")
        == expand_variables("$SOME_DATA/a.json")
        == f"{tmp_path}/a.json"
    )


def test_aliases_that_stand_for_billions_of_values_are_refused(tmp_path: Path) -> None:
    nines = "".join(f"  b{i}: &b{i} [{', '.join([f'*b{i - 1}'] * 9)}]\n" for i in range(1, 12))
    text = f"env: E\nmodels: [a]\nagents: [b]\nbudget: 3\nenv_kwargs:\n  b0: &b0 [1]\n{nines}"
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(UserError, match="its aliases make more than 1000000 values"):
        Study.load(tmp_path / "study.yaml")


def test_a_study_names_no_folder_to_write_logs_into(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, logs = tmp_path / "study.yaml", tmp_path / "logs"
    agent = {"name": "hsdag", "kwargs": {"tensorboard_log": str(logs)}}
    file.write_text(json.dumps(VALUES | {"models": ["tiny"], "seeds": 1, "agents": [agent]}))
    words = ["bench", "run", str(file), "--out", str(tmp_path / "out"), "--executor", "serial"]
    assert main(words) == 2
    assert "names folders for logs (tensorboard_log) of hsdag" in capsys.readouterr().err
    assert not logs.exists()


@pytest.mark.parametrize("name", ["env_kwargs", "score_on"])
def test_a_study_that_loads_a_library_needs_trust(name: str) -> None:
    assert not Study.from_dict(VALUES).needs_trust
    (reason,) = Study.from_dict({**VALUES, name: {"extension": "lib.so"}}).needs_trust
    assert reason == "loads the library lib.so"


def test_only_shipped_code_is_trusted() -> None:
    assert not Study.load("measured").needs_trust
    (reason,) = Study.from_dict({**VALUES, "agents": ["agents.stock:StepExtractor"]}).needs_trust
    assert reason == "runs its own code, agents.stock:StepExtractor"


def test_more_runs_than_anyone_can_wait_for_are_refused() -> None:
    with pytest.raises(UserError, match="600006 runs, more than 100000"):
        study(seeds=100_001)


def test_study_without_roles_is_checked_without_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Study, "tasks", lambda _: pytest.fail("built all runs"))
    study(seeds=10_000)
    with pytest.raises(pytest.fail.Exception):
        study(roles={"test": ["tiny"]})


def roles_of(**changes: Any) -> list[str]:
    return list(study(**changes).role_of.values())


def test_a_problem_without_a_role_is_a_test_problem() -> None:
    assert roles_of() == ["test", "test"]
    assert roles_of(roles={"validation": ["tiny"]}) == ["validation", "test"]


@pytest.mark.parametrize(
    "entry", ["${DATA}/a/net.json", "net", "a/net", {"model": "a/net", "devices": "x"}], ids=str
)
def test_model_is_named_as_in_the_study_or_by_its_paths_end(entry: Any) -> None:
    models = ["${DATA}/a/net.json", "${DATA}/b/other.json"]
    given = {"models": models, "devices": ["x"], "roles": {"validation": [entry]}}
    assert roles_of(**given) == ["validation", "test"]


def test_an_entry_may_mean_one_set_of_devices() -> None:
    given = {"models": ["tiny"], "devices": ["a", ["b", "c"]]}
    one = {"validation": [{"model": "tiny", "devices": ["b", "c"]}]}
    assert roles_of(**given, roles=one) == ["test", "validation"]
    assert roles_of(**given, roles={"validation": ["tiny"]}) == ["validation", "validation"]


def test_models_to_train_on_need_not_be_compared_on() -> None:
    assert roles_of(roles={"train": ["synthetic-layered-40", "tiny"]}) == ["train", "test"]


def test_half_a_name_is_no_name() -> None:
    with pytest.raises(UserError, match="not a problem of the study"):
        study(models=["${DATA}/a/net.json"], roles={"test": ["et"]})


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"validation": ["nothing"]}, "'nothing', which is not a problem"),
        ({"validations": ["tiny"]}, "did you mean 'validation'"),
        ({"validation": "tiny"}, "list of models"),
        ({"validation": ["tiny"], "test": ["tiny"]}, "both"),
        ({"validation": [{"model": "tiny"}]}, "devices"),
    ],
)
def test_wrong_roles_are_refused(roles: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        study(roles=roles)


def test_roles_do_not_change_the_keys_of_runs() -> None:
    keys = [task.key for task in study().tasks()]
    assert [task.key for task in study(roles={"validation": ["tiny"]}).tasks()] == keys


def test_where_a_finalist_is_scored_is_a_task_of_its_own() -> None:
    changes = {"env": "DevicePlacementSim-v0", "schedule": "event", "devices": "cpu+2gpu"}
    study = Study("DevicePlacement-v0", ["tiny"], ["random"], 3, seeds=1, score_on=changes)
    (task,) = study.tasks()
    elsewhere = task.elsewhere
    assert elsewhere is not None
    assert (elsewhere.env, elsewhere.devices) == ("DevicePlacementSim-v0", "cpu+2gpu")
    assert elsewhere.make_kwargs == {"model": "tiny", "devices": "cpu+2gpu", "schedule": "event"}
    assert elsewhere.elsewhere is None
