"""Run what is missing of a study, and publish its rows."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from rich.console import RenderableType

from placement_gym.base import (
    EXECUTORS,
    UserError,
    begin,
    check_choice,
    check_positive,
    join_words,
    make_output_folder,
    progress_bar,
    write_bytes,
)
from placement_gym.bench.run import (
    PACKED_ROWS,
    ROWS,
    AgentSpec,
    BenchEnvs,
    Json,
    OnEvaluation,
    Task,
    append_row,
    describe_devices,
    expand_variables,
    load_runs,
    lock_folder,
)
from placement_gym.bench.study.executors import (
    TASK_TIMEOUT_S,
    OutageError,
    Processes,
    Runs,
    run_in_workers,
    run_serially,
)
from placement_gym.bench.study.ray_cluster import Ray
from placement_gym.bench.study.spec import Study, one_of_each_problem

STUDY = "study.yaml"
"""File with the study, next to its results."""
Runner = Callable[[Sequence[Task], OnEvaluation], Runs]
TAKES = {"workers": ("processes",), "address": ("ray",), "timeout_s": ("processes", "ray")}
"""Option -> the executors that it is for."""


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
    """Run what is missing of a study.

    A line is added to ``results.jsonl`` as each run ends: a study that was killed continues where
    it stopped. The study is kept next to it as ``study.yaml``.

    Args:
        study: What to run.
        out: Folder of the results.
        executor: ``"serial"`` (in this process), ``"processes"`` or ``"ray"``; ``"auto"`` means
            processes, a single one where latencies are measured.
        workers: Number of processes; None takes the usable cores.
        address: Of a running Ray cluster; None starts a local one.
        retry_failed: Repeat runs whose rows have an error; the new row counts.
        quiet: Show no progress.
        timeout_s: Seconds without an evaluation after which a task in a separate process counts
            as hung and gets an error row; None allows an hour.

    Returns:
        The study's rows, in its order.

    Raises:
        UserError: An argument, agent or environment is wrong; nothing has run.
        OutageError: Workers were lost, as nodes of a cluster are; finished rows are kept.
        KeyboardInterrupt: Finished rows are kept, as the message says.
    """
    study.check()
    kind, workers = choose_executor(study, executor, workers, address, timeout_s)
    limit_s = timeout_s or TASK_TIMEOUT_S
    tasks, folder = study.tasks(), make_output_folder(out)
    missing = find_missing(tasks, folder, retry_failed)
    with BenchEnvs() as envs:
        # Ray's workers make their own: this process need not have the devices.
        for task in one_of_each_problem(missing) if kind != "ray" else ():
            for problem in filter(None, (task, task.elsewhere)):
                envs.get(problem.env, problem.make_kwargs)
        if missing:
            with lock_folder(folder):
                study.save(folder / STUDY)
            runners: dict[str, Runner] = {
                "serial": partial(run_serially, envs=envs),
                "processes": partial(run_in_workers, make=partial(Processes, workers, limit_s)),
                "ray": partial(
                    run_in_workers, make=partial(Ray, address, study.variables, limit_s)
                ),
            }
            run_tasks(tasks, missing, folder, runners[kind], quiet=quiet)
    return load_study_rows(study, folder)


def load_study_rows(study: Study, folder: str | Path) -> list[Json]:
    """Load the rows of a study, in its order; ``UserError`` if the folder has none."""
    by_key = {row["key"]: row for row in load_runs(Path(folder))}
    rows = [by_key[task.key] for task in study.tasks() if task.key in by_key]
    if not rows:
        raise UserError(f"{folder} has no results of this study: run it first")
    return rows


def choose_executor(
    study: Study, name: str, workers: int | None, address: str | None, timeout_s: float | None
) -> tuple[str, int | None]:
    """Check the executor and its options; return its name and number of processes."""
    check_choice("executor", name, EXECUTORS)
    if workers is not None and workers < 1:
        raise UserError(f"workers must be at least 1, not {workers}")
    if name == "auto":
        name, workers = "processes", workers or (1 if study.measured else None)
    if name == "processes" and workers != 1 and study.measured:
        raise UserError(
            "processes disturb each other's measurements: take 'auto' (one process), 'serial' or "
            "'ray'"
        )
    given = {"workers": workers, "address": address, "timeout_s": timeout_s}
    for option, takes in TAKES.items():
        if given[option] is not None and name not in takes:
            kinds = " or ".join(map(repr, takes))
            raise UserError(f"{option} is for executor {kinds}, not for {name!r}")
    if timeout_s is not None:
        check_positive("timeout_s", timeout_s)
    return name, workers


def find_missing(tasks: Sequence[Task], folder: Path, retry_failed: bool = False) -> list[Task]:
    """Find tasks without a row; ``retry_failed`` adds those whose row has an error."""
    rows = load_runs(folder)
    done = {row["key"] for row in rows if not (retry_failed and row["error"])}
    return [task for task in tasks if task.key not in done]


def run_tasks(
    tasks: Sequence[Task],
    missing: Sequence[Task],
    folder: Path,
    run: Runner,
    on_row: Callable[[Task, Json], None] = lambda task, row: None,
    on_evaluation: OnEvaluation = lambda speedup: None,
    quiet: bool = False,
    above: RenderableType | None = None,
) -> None:
    """Run missing tasks and add each row to the folder's results as it ends; see ``run_study``.

    ``on_row`` gets each row after it is kept; ``above`` is shown above the progress bar.

    Raises:
        FileError: A row cannot be written, as on a full disk; those before it are kept.
    """
    n_done, n_evaluations = len(tasks) - len(missing), 0
    total = f"≤ {sum(task.budget for task in missing):,}"
    with (
        lock_folder(folder),
        progress_bar(len(tasks), "runs", quiet, f"of {total} evaluations", above=above) as progress,
    ):
        bar = progress.tasks[0]
        begin(progress, n_done)

        def count(speedup: float | None) -> None:  # so cheap that no wall time shows it
            bar.fields["count"] += 1
            on_evaluation(speedup)

        try:
            with closing(run(missing, count)) as ended:
                for task, row in ended:
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


def count_runs(tasks: Sequence[Task], missing: Sequence[Task]) -> str:
    n_done = len(tasks) - len(missing)
    done = f", {n_done} already done" if n_done else ""
    return f"{len(tasks)} runs of at most {tasks[0].budget} evaluations{done}"


def describe_study(study: Study, out: str | Path, retry_failed: bool = False) -> str:
    """Describe in a few lines what running the study would do."""
    tasks = study.tasks()
    problems = [
        f"{Path(task.model).stem} on {describe_devices(task.devices)}"
        for task in one_of_each_problem(tasks)
    ]
    lines = [
        count_runs(tasks, find_missing(tasks, Path(out), retry_failed)),
        f"agents: {', '.join(spec.label for spec in study.specs)}",
        f"problems ({study.env}): {'; '.join(problems)}",
        f"seeds: {', '.join(map(str, study.all_seeds))}",
        *([f"it {join_words(study.needs_trust)}"] if study.needs_trust else []),
    ]
    return "\n".join(lines)


def publish_rows(study: Study, results: str | Path, out: str | Path) -> tuple[Path, int]:
    """Write a study's rows as ``results.jsonl.xz``; return the file and how many runs it lacks.

    Rows are without the machine's name, and name models as the study does. Raises a ``UserError``
    if there are no results of this study, or the file cannot be written.
    """
    lines = []
    for row in load_study_rows(study, results):
        model, error = json.loads(row["problem"])[2], row["error"]
        if "$" in model:
            error = error.replace(expand_variables(model), model)
        env_kwargs = row["env_kwargs"] | {"model": model}
        lines.append(json.dumps(row | {"host": "", "env_kwargs": env_kwargs, "error": error}))
    path, content = make_output_folder(out) / PACKED_ROWS, "\n".join([*lines, ""]).encode()
    write_bytes(path, lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
    return path, len(study.tasks()) - len(lines)
