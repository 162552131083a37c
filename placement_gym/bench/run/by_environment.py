"""Which functions compare agents on an environment: the one place that tells environments apart."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
BENCHMARKS = {"DevicePlacementOnline-v0": "placement_gym.bench.requests"}
"""Environment whose actions place no model -> module with functions of its own, of the same names
and parameters as those that are decorated."""


def by_environment(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let the environment's own function take a call, if it has a benchmark of its own.

    The environment is the argument ``env_id``, or the ``env`` of a ``study`` or ``document``.
    """
    parameters = inspect.signature(function).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        given = dict(zip(parameters, args, strict=False)) | kwargs
        module = BENCHMARKS.get(find_env_id(defaults | given))
        chosen = getattr(import_module(module), function.__name__) if module else function
        result: Result = chosen(*args, **kwargs)
        return result

    return call


def find_env_id(arguments: Mapping[str, Any]) -> str:
    """The id of the environment that arguments name."""
    if "study" in arguments:
        return str(getattr(arguments["study"], "env", ""))
    if "document" in arguments:
        return str(arguments["document"].get("env"))
    return str(arguments["env_id"])
