"""Run what is missing of a study, and keep every row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.progress import Task as ProgressTask
from rich.text import Text

from placement_gym.base import begin, join_words, make_output_folder, make_printable, progress_bar
from placement_gym.bench.run import (
    ROWS,
    AgentSpec,
    BenchEnvs,
    Json,
    append_row,
    load_runs,
    lock_folder,
)
from placement_gym.bench.study.checks import (
    check_names,
    choose_executor,
    first_of_each_problem,
    make_every_environment,
)
from placement_gym.bench.study.executors import Executor, OutageError, Serial, run_all
from placement_gym.bench.study.processes import TASK_TIMEOUT_S, Processes
from placement_gym.bench.study.ray_cluster import Ray
from placement_gym.bench.study.spec import Study
from placement_gym.bench.study.task import Task, describe_devices

STUDY = "study.yaml"
"""The study that a folder holds the results of, so that what is missing can be seen and run."""


def run_study(
    study: Study,
    out: str | Path,
    executor: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    retry_failed: bool = False,
    quiet: bool = False,
    timeout_s: float | None = None,
) -> list[Json]:
    """Run what is missing of a study; only this process writes.

    A line is added to ``results.jsonl`` as each run ends. A study that was killed continues where
    it stopped: runs are recognised by their keys in the file. The study itself is kept next to it
    as ``study.yaml``.

    Args:
        study: What to run.
        out: Folder of the results.
        executor: ``"serial"`` (in this process, which a task that crashes takes with it),
            ``"processes"`` or ``"ray"``; ``"auto"`` means processes, a single one where latencies
            are measured.
        workers: Processes; None takes the cores that this one may use.
        address: Of a running Ray cluster; None starts a local one.
        retry_failed: Run those again whose rows have an error; the new row counts.
        quiet: Show no progress.
        timeout_s: Seconds without an evaluation after which a task in a separate process counts
            as hung and gets an error row; None allows an hour.

    Returns:
        The study's rows, in its order.

    Raises:
        UserError: An argument is wrong, an agent is unknown or an environment cannot be made;
            nothing has run then.
        OutageError: Workers were lost, as nodes of a cluster are; finished rows are kept.
        KeyboardInterrupt: The run was interrupted; finished rows are kept, as the message says.
    """
    # What would fail in every run fails now, before hours of them.
    check_names(study)
    kind, workers = choose_executor(study, executor, workers, address, timeout_s)
    tasks, folder = study.tasks(), make_output_folder(out)
    missing = find_missing(tasks, folder, retry_failed)
    with BenchEnvs() as envs:
        # Ray's workers make their own: this process need not have the devices.
        if kind != "ray":
            make_every_environment(missing, envs)
        if missing:
            with lock_folder(folder):
                study.save(folder / STUDY)
            timeout_s = timeout_s or TASK_TIMEOUT_S
            with closing(make_executor(kind, study, envs, workers, address, timeout_s)) as made:
                run_tasks(tasks, missing, folder, made, quiet=quiet)
    by_key = {row["key"]: row for row in load_runs(folder)}
    return [by_key[task.key] for task in tasks]


def find_missing(tasks: Sequence[Task], folder: Path, retry_failed: bool = False) -> list[Task]:
    """Tasks without a row, and with ``retry_failed`` those whose row has an error."""
    rows = load_runs(folder)
    done = {row["key"] for row in rows if not (retry_failed and row["error"])}
    return [task for task in tasks if task.key not in done]


def run_tasks(
    tasks: Sequence[Task],
    missing: Sequence[Task],
    folder: Path,
    executor: Executor,
    on_row: Callable[[Task, Json], None] = lambda task, row: None,
    quiet: bool = False,
    above: RenderableType | None = None,
) -> None:
    """Run tasks and add each row to the folder's results as it ends.

    Raises:
        FileError: A row cannot be written, as on a full disk; those before it are kept.
        UserError: Another process is writing into the folder.
        OutageError: No worker runs tasks any more; the message says what is kept.
        KeyboardInterrupt: The run was interrupted; the message says what is kept.
    """
    n_done, n_evaluations = len(tasks) - len(missing), 0
    total = f"≤ {sum(task.budget for task in missing):,}"
    with (
        lock_folder(folder),
        progress_bar(len(tasks), "runs", quiet, f"of {total} evaluations", above=above) as progress,
    ):
        bar = progress.tasks[0]
        begin(progress, n_done)
        executor.on_evaluation = partial(count_evaluation, bar)
        try:
            for task, row in run_all(missing, executor):
                append_row(folder / ROWS, row)
                n_done += 1
                n_evaluations += row["evaluations"]
                label = AgentSpec(task.agent, task.kwargs).label
                progress.update(
                    bar.id,
                    completed=n_done,
                    count=n_evaluations,
                    description=f"{label} on {Path(task.model).stem} done",
                )
                on_row(task, row)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(describe_kept(n_done, len(tasks), folder)) from None
        except OutageError as error:
            raise OutageError(f"{error}; {describe_kept(n_done, len(tasks), folder)}") from error


def describe_kept(n_done: int, n_runs: int, folder: Path) -> str:
    """State what an interrupt leaves, and how to continue."""
    if not n_done:
        return "no run has ended; rerun the command to start again"
    return f"{n_done} of {n_runs} runs are in {folder / ROWS}; rerun the command to continue"


def count_evaluation(bar: ProgressTask) -> None:
    """Count an evaluation; so cheap that it does not show in the wall time of a run."""
    bar.fields["count"] += 1


def make_executor(
    name: str,
    study: Study,
    envs: BenchEnvs,
    workers: int | None,
    address: str | None,
    timeout_s: float,
) -> Executor:
    if name == "ray":
        return Ray(address, study.variables, timeout_s)
    if name == "processes":
        return Processes(workers, timeout_s)
    return Serial(envs)


def describe_study(study: Study, out: str | Path, retry_failed: bool = False) -> str:
    """Describe in a few lines what running the study would do."""
    tasks = study.tasks()
    n_done = len(tasks) - len(find_missing(tasks, Path(out), retry_failed))
    agents = ", ".join(spec.label for spec in study.specs)
    problems = [
        f"{Path(task.model).stem} on {describe_devices(task.devices)}"
        for task in first_of_each_problem(tasks)
    ]
    trusted = [f"it {join_words(study.needs_trust)}"] if study.needs_trust else []
    return "\n".join(
        [
            f"{len(tasks)} runs of {study.budget} evaluations, {n_done} already done",
            f"agents: {agents}",
            f"problems ({study.env}): {'; '.join(problems)}",
            f"seeds: {', '.join(map(str, study.all_seeds))}",
            *trusted,
        ]
    )


def summarize_study(rows: Sequence[Json], out: str | Path) -> tuple[dict[str, Any], Text]:
    """The number and the file of a study's rows, as JSON and as a line."""
    failed, file = sum(bool(row["error"]) for row in rows), f"{out}/{ROWS}"
    remedy = ": --retry-failed runs them again" if failed else ""
    line = f"{len(rows)} rows in {file}, {failed} of them failed{remedy}"
    document = {"rows": len(rows), "failed": failed, "file": file}
    return document, Text(make_printable(line), no_wrap=True, overflow="ignore")
