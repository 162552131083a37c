"""Checks of a study before it runs: its names, its environments, and where it may run."""

from __future__ import annotations

from collections.abc import Sequence

from placement_gym.base import EXECUTORS, UserError, check_choice, check_positive
from placement_gym.bench.run import BenchEnvs, is_measured
from placement_gym.bench.study.spec import Study
from placement_gym.bench.study.task import Task

TAKES = {"workers": ("processes",), "address": ("ray",), "timeout_s": ("processes", "ray")}
"""The executors that an option is for."""


def check_names(study: Study) -> None:
    """Raise if an agent or environment is unknown, or a variable of a path is not set.

    Raises:
        UserError: With what is wrong.
    """
    for spec in study.specs:
        spec.check()
    for task in first_of_each_problem(study.tasks()):
        _ = task.make_kwargs
    is_measured_study(study)


def make_every_environment(tasks: Sequence[Task], envs: BenchEnvs) -> None:
    """Make the environment of each problem once, so that no run fails for a wrong name.

    Raises:
        UserError: An argument of an environment is wrong.
    """
    for task in first_of_each_problem(tasks):
        envs.get(task.env, task.make_kwargs)
        if elsewhere := task.elsewhere:
            envs.get(elsewhere.env, elsewhere.make_kwargs)


def first_of_each_problem(tasks: Sequence[Task]) -> list[Task]:
    return list({task.problem: task for task in reversed(tasks)}.values())[::-1]


def is_measured_study(study: Study) -> bool:
    """Return whether any of its latencies are measured.

    Raises:
        UserError: An environment is unknown.
    """
    envs = {study.env, study.score_on.get("env", study.env)}
    return any(is_measured(env) for env in sorted(envs))


def choose_executor(
    study: Study,
    name: str,
    workers: int | None,
    address: str | None,
    timeout_s: float | None = None,
) -> tuple[str, int | None]:
    """The executor's name and its processes, of which a measured study has one.

    Raises:
        UserError: The name is unknown, or an option does not go with it.
    """
    check_choice("executor", name, EXECUTORS)
    if workers is not None and workers < 1:
        raise UserError(f"workers must be at least 1, not {workers}")
    if name == "auto":
        name, workers = "processes", workers or (1 if is_measured_study(study) else None)
    if name == "processes" and workers != 1 and is_measured_study(study):
        raise UserError(
            "processes disturb each other's measurements: take 'auto' (one process), 'serial' or "
            "'ray'"
        )
    settings = {"workers": workers, "address": address, "timeout_s": timeout_s}
    for option, value in settings.items():
        if value is not None and name not in TAKES[option]:
            takes = " or ".join(map(repr, TAKES[option]))
            raise UserError(f"{option} is for executor {takes}, not for {name!r}")
    if timeout_s is not None:
        check_positive("timeout_s", timeout_s)
    return name, workers
