"""Studies: agents on problems with seeds, as files that can be run again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from placement_gym.base import (
    UserError,
    check_choice,
    is_path,
    join_words,
    list_neighbours,
    read_bytes,
    suggest,
    to_plain,
    write_text,
)
from placement_gym.base.schemas import StudyFields, check, parse_yaml, refuse_file
from placement_gym.bench.run import (
    VARIABLE,
    AgentSpec,
    Task,
    check_labels,
    expand_variables,
    is_measured,
)

TEST, VALIDATION, TRAIN = "test", "validation", "train"
ROLES = (TEST, VALIDATION, TRAIN)
Roles = Mapping[str, Sequence[Any]]
STUDIES = Path(__file__).parent.parent / "studies"
MAX_FILE_BYTES = 2**20
"""Largest study file. Hand-tuned."""
LOG_OPTION = "tensorboard_log"
"""SB3's option, the only one of shipped agents that writes files."""
SHIPPED = {"agents.stock:ppo"}
"""Agents by ``"module:attribute"`` that come with the package."""


@dataclass(frozen=True)
class Study:
    """Agents x models x devices x seeds, at one budget.

    Attributes:
        env: Id of the environment.
        models: As for ``gym.make``; a path may contain environment variables, ``${VARIABLE}``.
        agents: Names, ``"module:attribute"``, or ``{"name", "kwargs", "label"}``; the report calls
            them by their labels.
        budget: Evaluations of a run.
        devices: As for ``gym.make``; each entry is combined with each model.
        seeds: Seeds of every agent; a number n means 0 to n - 1.
        env_kwargs: Further arguments of ``gym.make``.
        score_on: See ``Task``.
        roles: ``train``, ``validation`` and ``test`` -> problems: models as above, or without
            folders and suffix, or ``{model, devices}``. Others are test problems, over which
            reports average. Problems of ``train`` may be models that only agents use.
        published: Label -> model -> latency in ms, for the report.
        about: One line for the report.

    Raises:
        UserError: A field is empty or out of range.
    """

    env: str
    models: Sequence[str]
    agents: Sequence[Any]
    budget: int
    devices: Sequence[Any] = (None,)
    seeds: Sequence[int] | int = 5
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    score_on: Mapping[str, Any] = field(default_factory=dict)
    roles: Roles = field(default_factory=dict)
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    about: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", check(StudyFields, vars(self)).budget)
        for name, own in {"model": "models", "devices": "devices"}.items():
            if name in self.env_kwargs:
                raise UserError(f"env_kwargs names {name}: list all {own} in the field {own!r}")
        check_labels(self.specs)
        if self.roles:
            assign_roles(self.roles, self.tasks())

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a study's YAML file, or a study of the package by its name.

        Raises:
            FileError: It cannot be read.
            UserError: There is no such study, or it is not valid.
        """
        file = find_study(path)
        content = read_bytes(file, MAX_FILE_BYTES)
        values = None
        try:
            values = parse_yaml(content)
            return cls.from_dict(values)
        except UserError as error:
            raise refuse_file(file, "a valid study file", values, error) from error

    @classmethod
    def from_dict(cls, values: Any) -> Study:
        """A study from plain values; None stands for a default.

        Raises:
            UserError: A field is wrong, unknown or missing.
        """
        if isinstance(values, Mapping):
            values = {name: value for name, value in values.items() if value is not None}
        check(StudyFields, values)
        return cls(**values)

    def save(self, path: Path) -> None:
        """Write a YAML file that ``load`` reads; ``FileError`` if that fails."""
        import yaml

        defaults = {entry.name: entry.default for entry in fields(self)}
        given = vars(self).items()
        values = {name: value for name, value in given if value and value != defaults[name]}
        values["models"] = list(map(str, self.models))
        write_text(path, yaml.safe_dump(to_plain(values), sort_keys=False, allow_unicode=True))

    def check(self) -> None:
        """Raise a ``UserError`` if an agent, environment or variable of a path is unknown."""
        for spec in self.specs:
            spec.check()
        for model in self.models:
            expand_variables(str(model))
        _ = self.measured

    @property
    def measured(self) -> bool:
        """True if any latencies are measured; ``UserError`` if an environment is unknown."""
        envs = {self.env, self.score_on.get("env", self.env)}
        return any(is_measured(env) for env in sorted(envs))

    @property
    def needs_trust(self) -> list[str]:
        """Descriptions of the code it runs, libraries it loads and logs it writes."""
        code = sorted({spec.name for spec in self.specs if ":" in spec.name} - SHIPPED)
        settings = (self.env_kwargs, self.score_on)
        libraries = [str(one["extension"]) for one in settings if one.get("extension")]
        logs = [spec.label for spec in self.specs if spec.kwargs.get(LOG_OPTION)]
        return [
            *([f"runs its own code, {', '.join(code)}"] if code else []),
            *([f"loads the library {join_words(libraries)}"] if libraries else []),
            *([f"names folders for logs ({LOG_OPTION}) of {', '.join(logs)}"] if logs else []),
        ]

    @property
    def all_seeds(self) -> list[int]:
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    @property
    def specs(self) -> list[AgentSpec]:
        """Its agents; ``UserError`` if one is an object in memory."""
        objects = [agent for agent in self.agents if not isinstance(agent, (str, Mapping))]
        if objects:
            raise UserError(
                f"a study names its agents, as in 'module:attribute', not {objects[0]!r:.200}"
            )
        return [AgentSpec.from_value(agent) for agent in self.agents]

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables in the models' paths, with their values."""
        names = {name for model in self.models for name in VARIABLE.findall(str(model))}
        return {name: os.environ[name] for name in sorted(names) if name in os.environ}

    @property
    def role_of(self) -> dict[str, str]:
        """The role of each problem, ``"test"`` where the study names none."""
        return assign_roles(self.roles, self.tasks())

    def label(self, row: Mapping[str, Any]) -> str:
        """The label of a row's agent in this study."""
        made_by = (row["agent"], row["kwargs"])
        labels = [spec.label for spec in self.specs if (spec.name, dict(spec.kwargs)) == made_by]
        return labels[0] if labels else str(row["label"])

    def tasks(self) -> list[Task]:
        """Every run once, in order of model, devices, seed and agent."""
        cells = product(self.models, self.devices, self.all_seeds, self.specs)
        tasks = [
            Task(
                agent=spec.name,
                kwargs=dict(spec.kwargs),
                env=self.env,
                env_kwargs=dict(self.env_kwargs),
                model=str(model),
                devices=devices,
                seed=seed,
                budget=self.budget,
                score_on=dict(self.score_on),
            )
            for model, devices, seed, spec in cells
        ]
        return list({task.key: task for task in tasks}.values())


def one_of_each_problem(tasks: Sequence[Task]) -> list[Task]:
    return [*{task.problem: task for task in tasks}.values()]


def find_study(study: str | Path) -> Path:
    """Find the file of a study by its path, or its name in the package."""
    path = Path(study)
    if is_path(path) and not path.is_dir():
        return path
    shipped = {file.stem: file for file in STUDIES.glob("*.yaml")}
    if (name := str(study)) not in shipped:
        near = suggest(name, shipped) or suggest(study, list_neighbours(str(study)))
        raise UserError(
            f"no study {str(study)!r:.200}: it is not a file, and those of the package are "
            f"{join_words(sorted(shipped))}{near}"
        )
    return shipped[name]


def assign_roles(roles: Roles, tasks: Sequence[Task]) -> dict[str, str]:
    """The role of each problem; ``UserError`` if one has two, or an entry fits no problem."""
    role_of: dict[str, str] = {}
    for role, entries in roles.items():
        check_choice("a role", role, ROLES)
        for entry in check_entries(role, entries):
            problems = {task.problem for task in tasks if matches(entry, task)}
            if not problems and role != TRAIN:
                raise UserError(f"{role} names {entry!r}, which is not a problem of the study")
            for problem in problems:
                if role_of.setdefault(problem, role) != role:
                    raise UserError(f"{entry!r} is both a {role_of[problem]} and a {role} problem")
    return {task.problem: role_of.get(task.problem, TEST) for task in tasks}


def check_entries(role: str, entries: Any) -> Sequence[Any]:
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise UserError(f"{role} must be a list of models, not {entries!r}")
    for entry in entries:
        if isinstance(entry, Mapping) and (
            set(entry) != {"model", "devices"} or isinstance(entry["model"], Mapping)
        ):
            raise UserError(f"an entry of {role} is a model or {{model, devices}}, not {entry!r}")
    return entries


def matches(entry: Any, task: Task) -> bool:
    if isinstance(entry, Mapping):
        return entry["devices"] == task.devices and matches(entry["model"], task)
    parts = Path(task.model).with_suffix("").parts if Path(task.model).suffix else (task.model,)
    suffix = Path(str(entry)).parts
    return str(entry) == task.model or parts[-len(suffix) :] == suffix
