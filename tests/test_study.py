"""Studies: keys, resuming, workers that are lost, a parent that is killed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from placement_gym.bench import finalists, results
from placement_gym.bench.arena import Arena
from placement_gym.bench.compare import compare
from placement_gym.bench.executors import ATTEMPTS, Processes, Serial, WorkerLost, run_all
from placement_gym.bench.study import Study, Task, expanded
from placement_gym.bench.study_run import plan_of, run_study
from placement_gym.bench.validate import validate
from placement_gym.bench.worker import Result, failed, run_task
from placement_gym.cli import main
from placement_gym.env import placement_env

VALUES: dict[str, Any] = {
    "env": "DevicePlacementSim-v0",
    "models": ["tiny", "resnet"],
    "devices": ["hsdag-paper"],
    "agents": ["random", {"name": "random-blocks"}, "single-device"],
    "seeds": 3,
    "budget": 12,
}
TIMES = ("wall_s", "time", "curve")


def study(**changes: Any) -> Study:
    return Study.of(VALUES | changes)


def timeless(rows: Iterable[Result]) -> list[Result]:
    """Rows without what differs from run to run, in the order of their keys."""
    kept = [{key: value for key, value in row.items() if key not in TIMES} for row in rows]
    return sorted(kept, key=lambda row: str(row["key"]))


def test_a_study_is_agents_times_models_times_devices_times_seeds() -> None:
    tasks = study().tasks()
    assert len(tasks) == 3 * 2 * 1 * 3
    assert len({task.key for task in tasks}) == len(tasks)


def test_a_key_is_everything_that_decides_a_run() -> None:
    task = study().tasks()[0]
    changes: dict[str, Any] = {
        "agent": "genetic",
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


def test_a_study_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("env: DevicePlacementSim-v0\nmodels: [tiny]\nagents: [random]\nbudget: 3\n")
    assert Study.load(file).all_seeds == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env: E\nmodels: [tiny]\nagents: [random]\nbudget: 1e3", "whole number"),
        ("env: E\nmodels: [tiny]\nagents: [random]\nbudget: 3\nseeds: '5'", "seeds"),
        ("env: E\nmodels: [tiny]\nagents: [a, {name: a}]\nbudget: 3", "two agents"),
        ("models: [tiny]", "needs"),
        ("[1, 2]", "needs"),
        ("a: [", "YAML"),
        ("env: E\nmodels: tiny\nagents: [random]\nbudget: 3", "models"),
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
        ({"agents": [Serial()]}, "names its agents"),
        ({"score_on": {"env": "Elsewhere-v0"}}, "Elsewhere"),
        ({"env": "Nowhere-v0"}, "Nowhere"),
        ({"models": ["${NOT_SET_ANYWHERE}/a.json"]}, "NOT_SET_ANYWHERE"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_does(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run_study(study(**changes), tmp_path, quiet=True)
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"executor": "cloud"}, "one of"),
        ({}, {"executor": "serial", "workers": 2}, "workers"),
        ({}, {"workers": 0}, "at least 1"),
        ({}, {"address": "auto"}, "'ray' alone"),
        ({"env": "DevicePlacement-v0"}, {"executor": "processes"}, "disturb"),
        ({"score_on": {"env": "DevicePlacement-v0"}}, {"executor": "processes"}, "disturb"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    changes: dict[str, Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run_study(study(**changes), tmp_path, quiet=True, **options)


def test_empty_fields_of_a_file_are_as_if_left_out() -> None:
    empty = study(env_kwargs=None, score_on=None, agents=[{"name": "random", "kwargs": None}])
    assert empty.tasks() == study(agents=["random"]).tasks()


def test_variables_of_a_path_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_DATA", "/data")
    assert expanded("${SOME_DATA}/a.json") == expanded("$SOME_DATA/a.json") == "/data/a.json"


def test_every_run_is_a_row_and_none_is_done_twice(tmp_path: Path) -> None:
    rows = run_study(study(), tmp_path, "serial", quiet=True)
    written = (tmp_path / "results.jsonl").read_bytes()
    assert [row["key"] for row in rows] == [task.key for task in study().tasks()]
    assert all(row["latency_ms"] and not row["error"] for row in rows)
    assert run_study(study(), tmp_path, "serial", quiet=True) == rows
    assert (tmp_path / "results.jsonl").read_bytes() == written
    more = run_study(study(seeds=4), tmp_path, "serial", quiet=True)
    assert len(more) == 4 * 6
    assert (tmp_path / "results.jsonl").read_bytes().startswith(written)


def test_a_torn_line_is_done_again(tmp_path: Path) -> None:
    whole = run_study(study(), tmp_path, "serial", quiet=True)
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    assert len(results.load(path)) == len(whole) - 1
    again = run_study(study(), tmp_path, "serial", quiet=True)
    assert timeless(again) == timeless(whole)
    assert len(results.load(path)) == len(whole)


def test_processes_give_the_rows_of_a_serial_run(tmp_path: Path) -> None:
    serial = run_study(study(), tmp_path / "serial", "serial", quiet=True)
    parallel = run_study(study(), tmp_path / "parallel", "processes", workers=2, quiet=True)
    assert timeless(serial) == timeless(parallel)


def test_an_environment_that_cannot_be_made_is_an_error_in_the_row(tmp_path: Path) -> None:
    rows = run_study(study(models=["no-such-model"]), tmp_path, "serial", quiet=True)
    assert len(rows) == 9
    assert all("no-such-model" in row["error"] for row in rows)
    assert {row["label"] for row in rows} == {"random", "random-blocks", "single-device"}


def test_failed_runs_are_done_again_only_if_asked(tmp_path: Path) -> None:
    path, (first, *others) = tmp_path / results.ROWS, study(models=["tiny"], seeds=1).tasks()
    small = study(models=["tiny"], seeds=1)
    results.append_json(path, failed(first, "no power"))
    assert [row["error"] for row in run_study(small, tmp_path, "serial", quiet=True)] == [
        "no power",
        *("" for _ in others),
    ]
    assert "3 done before" in plan_of(small, tmp_path)
    assert "2 done before" in plan_of(small, tmp_path, retry_failed=True)
    again = run_study(small, tmp_path, "serial", retry_failed=True, quiet=True)
    assert not any(row["error"] for row in again)
    assert len(results.load(path)) == 4
    assert len(results.of_study(tmp_path)) == 3
    assert not [verdict for verdict in validate(tmp_path, quiet=True) if verdict.problem]


def test_rows_of_a_comparison_in_the_same_folder_are_left_out(tmp_path: Path) -> None:
    compare("tiny", ["random"], "DevicePlacementSim-v0", budget=2, out=tmp_path, quiet=True)
    compared = results.load(tmp_path / results.ROWS)
    small = study(models=["tiny"], seeds=1)
    rows = run_study(small, tmp_path, "serial", quiet=True)
    compare("tiny", ["random"], "DevicePlacementSim-v0", budget=2, out=tmp_path, quiet=True)
    assert run_study(small, tmp_path, "serial", quiet=True) == rows
    assert len(results.load(tmp_path / results.ROWS)) == len(rows) + 2 * len(compared)
    assert len(list(validate(tmp_path, quiet=True))) == len(rows)


def test_two_processes_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with results.sole_writer(tmp_path), pytest.raises(ValueError, match="another process"):
        run_study(study(), tmp_path, "serial", quiet=True)


class Unreliable(Serial):
    """Loses some tasks before it does them."""

    def __init__(self, losses: dict[str, int]) -> None:
        self.losses = losses

    def submit(self, task: Task) -> Any:
        return lambda: self.attempted(task)

    def finished(self, handles: Sequence[Any]) -> Iterable[Any]:
        return list(handles)

    def result(self, handle: Any) -> Result:
        row: Result = handle()
        return row

    def attempted(self, task: Task) -> Result:
        if self.losses.get(task.key, 0):
            self.losses[task.key] -= 1
            raise WorkerLost("power cut")
        return run_task(task)


def test_a_task_whose_worker_is_lost_begins_again_and_at_last_is_given_up() -> None:
    tasks = study(models=["tiny"], seeds=1).tasks()
    losses = {tasks[0].key: ATTEMPTS - 1, tasks[1].key: ATTEMPTS}
    rows = {task.key: row for task, row in run_all(tasks, Unreliable(losses))}
    assert len(rows) == 3
    assert rows[tasks[0].key]["error"] == ""
    assert "power cut" in rows[tasks[1].key]["error"]


@pytest.mark.slow
def test_a_killed_worker_loses_no_run() -> None:
    tasks = study(models=["tiny"], agents=["annealing"], seeds=6, budget=3000).tasks()
    executor = Processes(2)
    rows = []
    try:
        for _, row in run_all(tasks, executor):
            if not rows:
                for pid in list(next(iter(executor.busy.values()))._processes):
                    os.kill(pid, signal.SIGKILL)
            rows.append(row)
    finally:
        executor.close()
    assert sorted(row["key"] for row in rows) == sorted(task.key for task in tasks)
    assert not any(row["error"] for row in rows)


def test_a_task_that_kills_its_worker_takes_no_other_with_it() -> None:
    agents = ["fatal_agent:make", "annealing"]
    _, *tasks = study(models=["tiny"], agents=agents, seeds=2, budget=3000).tasks()
    executor = Processes(2)
    try:
        rows = [row for _, row in run_all(tasks, executor)]
    finally:
        executor.close()
    assert len(rows) == 3
    for row in rows:
        assert ("lost 3 times" in row["error"]) == (row["agent"] == "fatal_agent:make")


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from placement_gym.bench.executors import Processes\nProcesses(1)\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode
    assert "__main__" in done.stderr.splitlines()[-1]


def test_measured_runs_do_not_share_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten = []
    monkeypatch.setattr(Arena, "forget", lambda arena: forgotten.append(arena.env_id))
    for task in study(models=["tiny"], seeds=1).tasks():
        run_task(task)
    assert len(forgotten) == 3


def test_what_cannot_be_scored_elsewhere_keeps_its_row() -> None:
    elsewhere = study(models=["tiny"], score_on={"devices": "cpu+igpu+npu"}, agents=["random"])
    task = replace(elsewhere.tasks()[0], devices="cpu+2dgpu", score_on={"devices": "cpu+igpu"})
    row = run_task(replace(task, agent="single-device", kwargs={"device": "GPU.1"}))
    assert row["latency_ms"]
    assert row["scored_ms"] is None
    assert "scored elsewhere" in row["error"]


def test_an_agent_that_is_an_object_is_taken_as_it_is() -> None:
    task = study(models=["tiny"], agents=["fatal_agent:HARMLESS"]).tasks()[0]
    row = run_task(task)
    assert row["error"] == ""
    assert row["evaluations"] == 1


def test_a_prediction_is_one_episode() -> None:
    task = study(models=["tiny"], agents=["fatal_agent:secretive"], budget=3).tasks()[0]
    assert "BudgetReached" in run_task(task)["error"]


def test_an_episode_that_is_longer_than_the_budget_holds(tmp_path: Path) -> None:
    one_by_one = study(
        env="DevicePlacementPerUnitSim-v0", models=["resnet"], agents=["single-device"], budget=2
    )
    rows = run_study(one_by_one, tmp_path, "serial", quiet=True)
    assert all(row["evaluations"] > 2 and row["latency_ms"] for row in rows)
    assert not [verdict for verdict in validate(tmp_path, quiet=True) if verdict.problem]


def running(marker: str) -> list[int]:
    """Processes in whose environment the marker stands."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_a_killed_parent_leaves_no_worker_and_the_study_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    values = VALUES | {"agents": ["annealing", "random"], "seeds": 4, "budget": 2000}
    file.write_text(json.dumps(values))
    marker = f"STUDY_OF={tmp_path}"
    command = [sys.executable, "-c", "from placement_gym.cli import main; main()", "bench", "run"]
    command += [str(file), "--out", str(tmp_path / "out"), "--workers", "2"]
    path = tmp_path / "out" / "results.jsonl"
    parent = subprocess.Popen(
        command, env={**os.environ, "STUDY_OF": str(tmp_path)}, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: path.is_file() and path.stat().st_size > 0)
    parent.kill()
    parent.wait()
    wait_until(lambda: not running(marker))
    written = path.read_bytes()
    time.sleep(0.5)
    assert path.read_bytes() == written
    resumed = run_study(Study.load(file), tmp_path / "out", "serial", quiet=True)
    assert path.read_bytes().startswith(written[: written.rfind(b"\n") + 1])
    undisturbed = run_study(Study.load(file), tmp_path / "other", "serial", quiet=True)
    assert timeless(resumed) == timeless(undisturbed)
    assert timeless(results.load(path)) == timeless(undisturbed)


def test_a_process_ends_with_its_parent(tmp_path: Path) -> None:
    child = (
        "import os, time; from placement_gym.bench.orphans import end_with;"
        "end_with(os.getppid()); print(os.getpid(), flush=True); time.sleep(60)"
    )
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "CHILD_OF": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    assert int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    wait_until(lambda: not running(f"CHILD_OF={tmp_path}"), seconds=5)


def test_so_does_the_process_that_measures_finalists(monkeypatch: pytest.MonkeyPatch) -> None:
    parents: list[int] = []
    task = {"parent": 7, "env_id": "Nowhere-v0", "env_kwargs": {}}
    monkeypatch.setattr(finalists, "end_with", parents.append)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(task)))
    with pytest.raises(gym.error.Error):
        finalists.main()
    assert parents == [7]


def wait_until(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_the_plan_says_what_is_left(tmp_path: Path) -> None:
    assert "18 runs of 12 evaluations, 0 done before" in plan_of(study(), tmp_path)
    run_study(study(seeds=1), tmp_path, "serial", quiet=True)
    assert "18 runs of 12 evaluations, 6 done before" in plan_of(study(), tmp_path)


def test_the_command_runs_a_study_and_a_dry_run_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "study.yaml", tmp_path / "out"
    file.write_text(json.dumps(VALUES | {"models": ["tiny"], "seeds": 1}))
    assert main(["bench", "run", str(file), "--out", str(out), "--dry-run"]) == 0
    assert not out.exists()
    assert main(["bench", "run", str(file), "--out", str(out), "--executor", "serial"]) == 0
    assert "3 rows" in capsys.readouterr().out
    assert main(["bench", "run", str(tmp_path / "none.yaml"), "--out", str(out)]) == 2


def test_finalists_are_scored_once_more_elsewhere(tmp_path: Path) -> None:
    elsewhere = {"schedule": "placeto", "devices": "cpu+igpu"}
    changed = study(models=["inception"], devices=["cpu+dgpu"], agents=["random-blocks"])
    changed = replace(changed, score_on=elsewhere)
    rows = run_study(changed, tmp_path, "serial", quiet=True)
    other = gym.make("placement_gym:DevicePlacementSim-v0", model="inception", **elsewhere)
    other.reset()
    problem = placement_env(other).problem
    for row in rows:
        devices = [problem.device_names.index(row["placement"][u]) for u in problem.units.names]
        *_, info = other.step(np.array(devices))
        assert row["scored_ms"] == pytest.approx(info["latency_ms"])
        assert row["scored_ms"] != pytest.approx(row["latency_ms"])
    plain = replace(changed, score_on={})
    assert {task.key for task in plain.tasks()}.isdisjoint(row["key"] for row in rows)
