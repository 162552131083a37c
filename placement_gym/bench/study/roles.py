"""Roles of a study's problems: training, choosing settings, or testing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from placement_gym.base.errors import UserError, unknown_name
from placement_gym.bench.study.task import Task

TEST, VALIDATION, TRAIN = "test", "validation", "train"
ROLES = (TEST, VALIDATION, TRAIN)
Roles = Mapping[str, Sequence[Any]]


def assign_roles(roles: Roles, tasks: Sequence[Task]) -> dict[str, str]:
    """The role of each problem; those that no role names are test problems.

    Args:
        roles: Role -> entries: a model as the study names it, or without folders and suffix, as
            ``resnet50_inference`` or ``LayerGraphs/resnet50_inference``; or ``{model, devices}``
            for that model on these devices alone.
        tasks: All runs of the study.

    Raises:
        UserError: A role is unknown, an entry fits no problem, or a problem has two roles. Entries
            of ``train`` may be models that only agents use.
    """
    found: dict[str, str] = {}
    for role, entries in roles.items():
        if role not in ROLES:
            raise unknown_name("a role", role, ROLES)
        for entry in check_entries(role, entries):
            problems = {task.problem for task in tasks if fits(entry, task)}
            if not problems and role != TRAIN:
                raise UserError(f"{role} names {entry!r}, which is not a problem of the study")
            for problem in problems:
                if found.setdefault(problem, role) != role:
                    raise UserError(f"{entry!r} is both a {found[problem]} and a {role} problem")
    return {task.problem: found.get(task.problem, TEST) for task in tasks}


def check_entries(role: str, entries: Any) -> Sequence[Any]:
    """Raise unless the entries of a role are a list of models or ``{model, devices}``.

    Raises:
        UserError: The message says what is valid.
    """
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise UserError(f"{role} must be a list of models, not {entries!r}")
    for entry in entries:
        if isinstance(entry, Mapping) and set(entry) != {"model", "devices"}:
            raise UserError(f"an entry of {role} is a model or {{model, devices}}, not {entry!r}")
    return entries


def fits(entry: Any, task: Task) -> bool:
    """Return whether an entry of a role means the problem of a task."""
    if isinstance(entry, Mapping):
        return entry["devices"] == task.devices and fits(entry["model"], task)
    parts = Path(task.model).with_suffix("").parts if Path(task.model).suffix else (task.model,)
    wanted = Path(str(entry)).parts
    return str(entry) == task.model or parts[-len(wanted) :] == wanted
