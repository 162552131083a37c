# White-box tests of bench.run, bench.study
"""Where runs happen: options, workers that are lost, a parent that is killed."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from processes import find_processes
from studies import VALUES, study, timeless

from placement_gym.base.processes import ChildNotStartedError
from placement_gym.bench.run import BenchEnvs, Json, OnEvaluation, Task
from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.study import Study, executors, run_serially, run_study, run_task, runner
from placement_gym.bench.study.executors import (
    MAX_ATTEMPTS,
    OutageError,
    Processes,
    WorkerLost,
    WorkersMissing,
    run_all,
)
from placement_gym.bench.study.ray_cluster import Ray


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"executor": "cloud"}, "one of"),
        ({}, {"executor": "serial", "workers": 2}, "for executor 'processes'"),
        ({}, {"workers": 0}, "at least 1"),
        ({}, {"address": "auto"}, "for executor 'ray'"),
        ({}, {"executor": "serial", "timeout_s": 5.0}, "for executor 'processes' or 'ray'"),
        ({}, {"timeout_s": 0.0}, "timeout_s must be above 0"),
        ({"env": "DevicePlacement-v0"}, {"executor": "processes"}, "disturb"),
        ({"score_on": {"env": "DevicePlacement-v0"}}, {"executor": "processes"}, "disturb"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    changes: dict[str, Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run_study(study(**changes), tmp_path, quiet=True, **options)


def test_processes_give_the_rows_of_a_serial_run_each_on_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    before, threads = dict(os.environ), torch.get_num_threads()
    agents = [*VALUES["agents"], "failing_agent:tell_threads"]
    both = study(models=["tiny"], agents=agents, seeds=1)
    serial = run_study(both, tmp_path / "serial", "serial", quiet=True)
    parallel = run_study(both, tmp_path / "parallel", "processes", workers=2, quiet=True)
    assert timeless(serial) == timeless(parallel)
    told = [row["error"] for row in serial if row["agent"] == "failing_agent:tell_threads"]
    assert ["OMP_NUM_THREADS=1, torch 1" in one for one in told] == [True]
    assert dict(os.environ) == before
    assert torch.get_num_threads() == threads


class Unreliable:
    """Runs tasks here, one by one, and loses some before it does them."""

    slots = 1

    def __init__(self, losses: dict[str, int], loss: type[WorkerLost] = WorkerLost) -> None:
        self.envs, self.losses, self.loss = BenchEnvs(), losses, loss
        self.on_evaluation: OnEvaluation = lambda speedup: None

    def submit(self, task: Task) -> Any:
        return lambda: self.attempted(task)

    def wait(self, handles: Sequence[Any]) -> Iterable[Any]:
        return list(handles)

    def result(self, handle: Any) -> Json:
        row: Json = handle()
        return row

    def close(self) -> None:
        self.envs.close()

    def attempted(self, task: Task) -> Json:
        if self.losses.get(task.key, 0):
            self.losses[task.key] -= 1
            raise self.loss("power cut")
        return run_task(task, self.envs)


def test_task_of_a_lost_worker_restarts_and_is_then_given_up() -> None:
    tasks = study(models=["tiny"], seeds=1).tasks()
    losses = {tasks[0].key: MAX_ATTEMPTS - 1, tasks[1].key: MAX_ATTEMPTS}
    rows = {task.key: row for task, row in run_all(tasks, Unreliable(losses))}
    assert len(rows) == 3
    assert rows[tasks[0].key]["error"] == ""
    assert "power cut" in rows[tasks[1].key]["error"]


def test_runs_without_a_worker_are_no_results_and_done_on_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = study(models=["tiny"], seeds=1)
    keys = [task.key for task in small.tasks()]
    outage = Unreliable({keys[0]: MAX_ATTEMPTS, keys[2]: MAX_ATTEMPTS}, WorkersMissing)
    monkeypatch.setattr(runner, "Processes", lambda *_: outage)
    with pytest.raises(OutageError, match=r"power cut; 1 of 3 runs are in .*rerun the command"):
        run_study(small, tmp_path, quiet=True)
    assert [row["key"] for row in rows_file.load_runs(tmp_path)] == [keys[1]]
    rows = run_study(small, tmp_path, quiet=True)  # the power is back
    assert ([row["key"] for row in rows], [row["error"] for row in rows]) == (keys, [""] * 3)


def test_a_system_without_processes_gives_no_failed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ChildNotStartedError("it cannot start: Resource temporarily unavailable")

    monkeypatch.setattr(executors, "Child", refuse)
    with pytest.raises(OutageError, match="Resource temporarily unavailable"):
        list(run_all(study(models=["tiny"], seeds=1).tasks(), Processes(2)))


class Exceptions:
    """Of Ray, with its kinship; other errors of it are kinds of the first."""

    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        cause: Exception | None = None

    class WorkerCrashedError(RayError):
        pass

    class OutOfMemoryError(RayError):
        pass

    class LocalRayletDiedError(RayError):
        pass


class FakeRay:
    """A cluster whose tasks end with an error."""

    exceptions = Exceptions

    def __init__(self, error: Exception) -> None:
        self.error = error

    def fail(self, *_: Any, **__: Any) -> Any:
        raise self.error

    get = wait = cluster_resources = fail


def make_ray(error: Exception) -> Ray:
    executor = Ray.__new__(Ray)
    executor.ray = FakeRay(error)
    return executor


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Exceptions.WorkerCrashedError("killed"), WorkerLost),
        (Exceptions.OutOfMemoryError("too large"), WorkerLost),
        (Exceptions.LocalRayletDiedError("The raylet died\nlong page"), WorkersMissing),
        (Exceptions.RayTaskError("a fault of ours"), Exceptions.RayTaskError),
    ],
)
def test_errors_of_ray_are_of_the_task_or_of_the_cluster(
    error: Exception, expected: type[Exception]
) -> None:
    with pytest.raises(expected) as raised:
        make_ray(error).result(None)
    assert type(raised.value) is expected
    assert "\n" not in str(raised.value)


def test_a_worker_of_ray_without_processes_is_of_the_cluster() -> None:
    error = Exceptions.RayTaskError("traceback")
    error.cause = OutageError("no process")
    with pytest.raises(WorkersMissing, match="no process"):
        make_ray(error).result(None)


def test_a_cluster_that_does_not_answer_is_an_outage() -> None:
    executor = make_ray(ConnectionError("GCS is gone"))
    for ask in (lambda: executor.slots, lambda: executor.wait([])):
        with pytest.raises(OutageError, match="does not answer: GCS is gone"):
            ask()


@pytest.mark.slow
def test_a_killed_worker_loses_no_run() -> None:
    tasks = study(models=["tiny"], agents=["annealing"], seeds=6, budget=3000).tasks()
    executor = Processes(2)
    rows = []
    try:
        for _, row in run_all(tasks, executor):
            if not rows:
                executor.busy[0].child.process.kill()
            rows.append(row)
    finally:
        executor.close()
    assert sorted(row["key"] for row in rows) == sorted(task.key for task in tasks)
    assert not any(row["error"] for row in rows)


@pytest.mark.slow
def test_tasks_that_crash_or_hang_are_error_rows_and_others_end(tmp_path: Path) -> None:
    agents = ["fatal_agent:crash", "fatal_agent:hang", "fatal_agent:leave", "random"]
    fatal = study(models=["tiny"], agents=agents, seeds=1)
    rows = run_study(fatal, tmp_path, "processes", workers=1, quiet=True, timeout_s=15.0)
    crashed, hung, left, good = [row["error"] for row in rows]
    assert "lost 3 times: killed by SIGSEGV" in crashed
    assert "took more than 15 s" in hung
    assert left == "SystemExit: 3"
    assert good == ""


SCRIPT = """
import json, sys
from placement_gym import Study, run_study
values = json.loads({values!r})
print(len(run_study(Study.from_dict(values), {out!r}, "processes", 1, quiet=True)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["script", "standard input"])
def test_a_study_in_processes_needs_no_main_guard(way: str, tmp_path: Path) -> None:
    values = VALUES | {"models": ["tiny"], "agents": ["random"], "seeds": 1}
    code = SCRIPT.format(values=json.dumps(values), out=str(tmp_path / "out"))
    script = tmp_path / "script.py"
    script.write_text(code)
    file, text = (str(script), "") if way == "script" else ("-", code)
    done = subprocess.run([sys.executable, file], input=text, capture_output=True, text=True)
    assert done.stdout.strip() == "1", done.stderr


def running(marker: str) -> list[int]:
    """Processes in whose environment the marker stands."""
    return find_processes("environ", lambda text: marker.encode() in text)


MEASURED = {
    "env": "DevicePlacement-v0",
    "env_kwargs": {"warmup": 0, "repeats": 2},
    "models": ["tiny"],
    "devices": ["cpu-testbed"],
    "seeds": 1,
    "budget": 3,
}


@pytest.mark.slow
def test_measured_tasks_that_crash_or_hang_are_error_rows(tmp_path: Path) -> None:
    agents = ["fatal_agent:crash", "fatal_agent:hang", "random", "fatal_agent:leave", "window"]
    rows = run_study(study(**MEASURED, agents=agents), tmp_path, quiet=True, timeout_s=40.0)
    errors = [row["error"] for row in rows]
    assert "killed by SIGSEGV" in errors[0]
    assert "took more than 40 s" in errors[1]
    assert errors[3] == "SystemExit: 3"
    assert (errors[2], errors[4]) == ("", "")
    assert all(row["noise"] > 0 for row in (rows[2], rows[4]))


LONG = {
    "simulated": {"models": ["tiny"], "agents": ["annealing"], "seeds": 60, "budget": 3000},
    "measured": MEASURED | {"agents": ["random", "window"], "seeds": 8},
}
LATEST_KILL_S = {"simulated": 3.0, "measured": 10.0}
"""Of a parent's life; 20 of them must not be enough to end the study."""
NOISY = ("noise", "latency_ms", "latency_p90_ms", "speedup", "speedup_vs_best_single", "warning",
         "disturbed", "interference")  # fmt: skip
CHOSEN = ("greedy_latency_ms", "greedy_speedup", "n_submodels", "n_submodels_expected",
          "memory_bytes", "placement")  # fmt: skip
"""Fields of measured rows that differ from run to run: numbers, and what follows from them."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", LONG)
def test_study_killed_twenty_times_has_the_same_rows(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    values = VALUES | LONG[kind]
    file.write_text(json.dumps(values))
    command = [sys.executable, "-m", "placement_gym", "bench", "run", str(file)]
    command += ["--out", str(tmp_path / "out")]
    rng = np.random.default_rng(0)
    marker = f"STUDY_OF={tmp_path}"
    for attempt in range(20):
        parent = subprocess.Popen(
            command, env={**os.environ, "STUDY_OF": str(tmp_path)}, stderr=subprocess.DEVNULL
        )
        if attempt % 2:  # a parent that is still starting has no process that could survive it
            wait_until(lambda: len(running(marker)) > 1)
        time.sleep(rng.uniform(0.5, LATEST_KILL_S[kind]))
        assert parent.poll() is None, "nothing was left to kill"
        parent.kill()
        parent.wait()
        wait_until(lambda: not running(marker), seconds=5.0)
    rows = run_study(Study.load(file), tmp_path / "out", quiet=True)
    undisturbed = run_study(Study.load(file), tmp_path / "other", quiet=True)
    varying = (*NOISY, *CHOSEN, "beats_best_single") if kind == "measured" else ()
    assert without(rows, varying) == without(undisturbed, varying)
    assert not any(row["error"] for row in rows)


def without(rows: Sequence[Json], fields: Sequence[str]) -> list[Json]:
    """``timeless`` rows without these fields."""
    return [{k: v for k, v in row.items() if k not in fields} for row in timeless(rows)]


def wait_until(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_interrupt_keeps_finished_rows_and_says_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt_after_two(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield from itertools.islice(run_serially(*args, **kwargs), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_serially", interrupt_after_two)
    with pytest.raises(KeyboardInterrupt, match=r"2 of 9 runs .* rerun the command to continue"):
        run_study(study(models=["tiny"]), tmp_path, "serial", quiet=True)
    monkeypatch.undo()
    assert len(rows_file.load_runs(tmp_path)) == 2
    assert len(run_study(study(models=["tiny"]), tmp_path, "serial", quiet=True)) == 9
