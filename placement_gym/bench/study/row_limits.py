"""Limits of rows without a study that has their problem: nothing outside the package.

A row may be a stranger's. Its problem is made again only from what the package has: no file is
opened, no variable expanded, and nothing is repeated beyond what a measurement needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placement_gym.base.errors import UserError
from placement_gym.bench.study.task import Task
from placement_gym.graph.generated import is_generated
from placement_gym.models.loading import list_models, match_built_in
from placement_gym.problem.costs.workloads import SCALES

COSTS = (None, "analytic", "profiled", *SCALES)
"""Costs that are no file."""
MAX_ARGUMENTS = {"warmup": 1000, "repeats": 1000, "requests": 1000, "timeout_s": 3600}
"""Largest values of arguments that are a number of repetitions or a time: ours, so that a row from
elsewhere cannot occupy the machine."""
MAX_MODELS = 8
"""Models of a union in a row from elsewhere: ours."""


def check_row_task(task: Task) -> None:
    """Raise if the run of a row names more than the package has.

    Raises:
        UserError: It does; the message says what, and how the row can be replayed all the same.
    """
    for setting in filter(None, (task, task.elsewhere)):
        strange = find_strange(setting.model, setting.devices, setting.env_kwargs)
        if strange:
            raise UserError(
                f"it names {strange!s:.200}, which a row may not name without a study: replay it "
                "with one that has its problem, as in `bench validate STUDY --out FOLDER`"
            )


def find_strange(model: str, devices: Any, env_kwargs: Mapping[str, Any]) -> str:
    """The argument of ``gym.make`` that a row alone may not state; empty if there is none."""
    if not is_in_package(model):
        return f"the file or model {model!r}"
    if isinstance(devices, str) and Path(devices).suffix == ".json":
        return f"the file of devices {devices!r}"
    if env_kwargs.get("costs") not in COSTS:
        return f"the file of costs {env_kwargs['costs']!r}"
    if isinstance(env_kwargs.get("constraints"), str):
        return f"the file of constraints {env_kwargs['constraints']!r}"
    for name, maximum in MAX_ARGUMENTS.items():
        value = env_kwargs.get(name)
        if isinstance(value, (int, float)) and value > maximum:
            return f"{name}={value}, more than {maximum}"
    return ""


def is_in_package(model: str) -> bool:
    """Return whether a model is built in or generated, or a union of few that are built in."""
    parts = list_models(model)
    built_in = len(parts) <= MAX_MODELS and all(match_built_in(part) for part, _ in parts)
    return built_in or is_generated(model)
