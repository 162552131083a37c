"""Which keywords ``gym.make`` takes for an environment, checked before anything is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

from placement_gym.entry_points import (
    MeasuredEnv,
    SimulatedEnv,
    measured_per_unit,
    simulated_per_unit,
)
from placement_gym.errors import UserError, unknown_name
from placement_gym.joint_env import simulated

ENV_OF_ENTRY_POINT: dict[Callable[..., Any], Callable[..., Any]] = {
    measured_per_unit: MeasuredEnv,
    simulated_per_unit: SimulatedEnv,
    simulated: SimulatedEnv,
}
"""The environment that takes the further keywords of an entry point."""
MAKE_KEYWORDS = {"max_episode_steps", "disable_env_checker"}
"""Keywords of ``gym.make`` itself."""


def check_kwargs(env_id: str, kwargs: Mapping[str, Any]) -> None:
    """Raise if ``gym.make(env_id, **kwargs)`` would not accept a keyword.

    Args:
        env_id: Id of a registered environment, with or without ``"module:"`` before it.
        kwargs: Further arguments of ``gym.make``; their values are not checked.

    Raises:
        UserError: The id or a keyword is unknown; the message suggests the nearest one.
    """
    entry_point = find_env_spec(env_id).entry_point
    if entry_point is None:
        return
    creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    known = accepted_keywords(creator)
    for key in kwargs:
        if known is not None and key not in known:
            raise unknown_name(f"an argument of {env_id.rpartition(':')[2]}", key, known)


def find_env_spec(env_id: str) -> EnvSpec:
    """The registered spec of an id, with or without ``"module:"`` before it.

    Raises:
        UserError: The id is unknown; the message suggests the nearest one.
    """
    module, _, name = env_id.rpartition(":")
    if ":" in module:
        raise UserError(f"an environment is named without a module here: {name!r}")
    try:
        if module:
            import_module(module)
        return gym.spec(name)
    except gym.error.Error:
        ids = [known for known in gym.registry if known.startswith("DevicePlacement")]
        raise unknown_name("env", name, ids) from None
    except ModuleNotFoundError as error:
        raise UserError(str(error)) from error


def accepted_keywords(creator: Callable[..., Any]) -> set[str] | None:
    """Return the keywords that ``gym.make`` takes for an entry point, or None if it takes any."""
    parameters = inspect.signature(creator).parameters.values()
    named = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
    if len(named) == len(parameters):
        return named | MAKE_KEYWORDS
    env = ENV_OF_ENTRY_POINT.get(creator)
    further = None if env is None else accepted_keywords(env)
    return None if further is None else named | further
