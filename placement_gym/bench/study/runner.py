"""Run a study: say what will be done, do what is not done yet, keep every row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym

from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.study.executors import Executor, Processes, Ray, Serial, run_all
from placement_gym.bench.study.spec import Study, Task
from placement_gym.errors import UserError
from placement_gym.progress import progress_bar

EXECUTORS = ("auto", "serial", "processes", "ray")


def run_study(
    study: Study,
    out: str | Path,
    executor: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    retry_failed: bool = False,
    quiet: bool = False,
) -> list[rows_file.Json]:
    """Run what is missing of a study; only this process writes.

    A line is added to ``results.jsonl`` as each run ends. Killed at any moment, the study goes on
    by the keys that the file holds.

    Args:
        study: What to run.
        out: Folder of the results.
        executor: ``"serial"``, ``"processes"`` or ``"ray"``; ``"auto"`` takes processes where
            latencies are simulated, serial where they are measured.
        workers: Processes; None takes the cores that this one may use.
        address: Of a running Ray cluster; None starts a local one.
        retry_failed: Do runs again whose rows have an error; the new row counts.
        quiet: Show no progress.

    Returns:
        The study's rows, in its order.

    Raises:
        ValueError: An argument is wrong; nothing has run then.
    """
    tasks = study.tasks()
    check(study)
    kind = choose_executor(study, executor, workers, address)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / rows_file.ROWS
    with rows_file.sole_writer(folder):
        rows_file.mend(path)
        done = done_in(folder, retry_failed)
        missing = [task for task in tasks if task.key not in done]
        with progress_bar(len(tasks), "runs", quiet) as report:
            report.update(report.task_ids[0], completed=len(tasks) - len(missing))
            if missing:
                chosen = started(kind, study, workers, address)
                try:
                    for task, row in run_all(missing, chosen):
                        rows_file.append_json(path, row)
                        label = f"{task.agent}, {Path(task.model).stem}"
                        report.update(report.task_ids[0], advance=1, description=label)
                finally:
                    chosen.close()
    by_key = {row["key"]: row for row in rows_file.of_study(folder)}
    return [by_key[task.key] for task in tasks]


def done_in(folder: Path, retry_failed: bool = False) -> set[str]:
    """Keys of the runs that need not be done."""
    rows = rows_file.of_study(folder)
    return {row["key"] for row in rows if not (retry_failed and row["error"])}


def check(study: Study) -> None:
    """Refuse what cannot run, before anything does.

    Raises:
        ValueError: An unknown agent or environment, or a variable of a path that is not set.
    """
    for spec in study.specs:
        spec.load()
    for task in first_of_each(study.tasks()):
        _ = task.make_kwargs
    measures(study)


def first_of_each(tasks: Sequence[Task]) -> list[Task]:
    """One task of each problem."""
    return list({task.problem: task for task in reversed(tasks)}.values())[::-1]


def measures(study: Study) -> bool:
    """Whether any of its latencies are measured.

    Raises:
        ValueError: There is no such environment.
    """
    import placement_gym  # noqa: F401  registers the environments

    envs = {study.env, study.score_on.get("env", study.env)}
    unknown = sorted(env for env in envs if env not in gym.registry)
    if unknown:
        ids = sorted(name for name in gym.registry if name.startswith("DevicePlacement"))
        raise UserError(f"env must be one of {ids}, not {unknown[0]!r}")
    return any(gym.registry[env].nondeterministic for env in envs)


def choose_executor(study: Study, name: str, workers: int | None, address: str | None) -> str:
    """The executor's name, ``"auto"`` resolved.

    Raises:
        ValueError: There is none of that name, or an option does not go with it.
    """
    if name not in EXECUTORS:
        raise UserError(f"executor must be one of {EXECUTORS}, not {name!r}")
    if name == "auto":
        name = "serial" if measures(study) else "processes"
    if name == "processes" and measures(study):
        raise UserError("processes disturb each other's measurements: take 'serial' or 'ray'")
    if workers is not None and (name != "processes" or workers < 1):
        raise UserError(f"workers, at least 1, go with 'processes' alone, not with {name!r}")
    if address is not None and name != "ray":
        raise UserError(f"an address goes with 'ray' alone, not with {name!r}")
    return name


def started(name: str, study: Study, workers: int | None, address: str | None) -> Executor:
    """The executor of that name, ready."""
    if name == "ray":
        return Ray(address, study.variables)
    return Processes(workers) if name == "processes" else Serial()


def describe_study(study: Study, out: str | Path, retry_failed: bool = False) -> str:
    """What running the study would do, in a few lines."""
    tasks = study.tasks()
    done = done_in(Path(out), retry_failed)
    left = sum(task.key not in done for task in tasks)
    agents = ", ".join(spec.label for spec in study.specs)
    problems = [f"{Path(task.model).stem} on {task.devices}" for task in first_of_each(tasks)]
    return "\n".join(
        [
            f"{len(tasks)} runs of {study.budget} evaluations, {len(tasks) - left} done before",
            f"agents: {agents}",
            f"problems ({study.env}): {'; '.join(problems)}",
            f"seeds: {', '.join(map(str, study.all_seeds))}",
        ]
    )
