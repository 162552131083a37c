"""Run a study: say what will be done, do what is not done yet, keep every row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym

from placement_gym.bench import results
from placement_gym.bench.executors import Executor, Processes, Ray, Serial, run_all
from placement_gym.bench.study import Study, Task
from placement_gym.progress import bar

ROWS = "results.jsonl"
EXECUTORS = ("auto", "serial", "processes", "ray")


def run_study(
    study: Study,
    out: str | Path,
    executor: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    quiet: bool = False,
) -> list[results.Json]:
    """Run what is missing of a study; only this process writes.

    A line is added to ``results.jsonl`` as each run ends. Killed at any moment, the study goes on
    by the keys that the file holds.

    Args:
        study: What to run.
        out: Folder of the results.
        executor: ``"serial"``, ``"processes"`` or ``"ray"``; ``"auto"`` takes processes where
            latencies are simulated, serial where they are measured.
        workers: Processes; None takes the machine's cores.
        address: Of a running Ray cluster; None starts a local one.
        quiet: Show no progress.

    Returns:
        The study's rows, in its order.

    Raises:
        ValueError: An argument is wrong; nothing has run then.
    """
    tasks = study.tasks()
    check(study)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ROWS
    with results.sole_writer(folder):
        results.mend(path)
        done = {row["key"] for row in results.load(path)}
        missing = [task for task in tasks if task.key not in done]
        with bar(len(tasks), "runs", quiet) as report:
            report.update(report.task_ids[0], completed=len(tasks) - len(missing))
            if missing:
                chosen = executor_of(executor, study, workers, address)
                try:
                    for task, row in run_all(missing, chosen):
                        results.append_json(path, row)
                        label = f"{task.agent}, {Path(task.model).stem}"
                        report.update(report.task_ids[0], advance=1, description=label)
                finally:
                    chosen.close()
    by_key = {row["key"]: row for row in results.load(path)}
    return [by_key[task.key] for task in tasks]


def check(study: Study) -> None:
    """Refuse what cannot run, before anything does.

    Raises:
        ValueError: An unknown agent or environment, or a variable of a path that is not set.
    """
    for spec in study.specs:
        spec.resolve()
    for task in first_of_each(study.tasks()):
        _ = task.make_kwargs
    if measured(study) is None:
        ids = sorted(name for name in gym.registry if name.startswith("DevicePlacement"))
        raise ValueError(f"env must be one of {ids}, not {study.env!r}")


def first_of_each(tasks: Sequence[Task]) -> list[Task]:
    """One task of each problem."""
    return list({task.problem: task for task in reversed(tasks)}.values())[::-1]


def measured(study: Study) -> bool | None:
    """Whether latencies are measured; None if there is no such environment."""
    import placement_gym  # noqa: F401  registers the environments

    spec = gym.registry.get(study.env)
    return None if spec is None else spec.nondeterministic


def executor_of(name: str, study: Study, workers: int | None, address: str | None) -> Executor:
    """The executor of that name.

    Raises:
        ValueError: There is none.
    """
    if name not in EXECUTORS:
        raise ValueError(f"executor must be one of {EXECUTORS}, not {name!r}")
    if name == "ray":
        return Ray(address, study.variables)
    if name == "processes" or (name == "auto" and not measured(study)):
        return Processes(workers)
    return Serial()


def plan_of(study: Study, out: str | Path) -> str:
    """What running the study would do, in a few lines."""
    tasks = study.tasks()
    path = Path(out) / ROWS
    done = {row["key"] for row in results.load(path)} if path.is_file() else set()
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
