"""Registered placement environments."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

from placement_gym.base import UserError, raise_interrupt, unknown_name
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.per_unit import PerUnitEnv

OWN_IDS = "DevicePlacement"
"""Prefix of this package's ids."""
PLACEMENT_CLASSES = (DevicePlacementEnv, PerUnitEnv, gym.Wrapper)
"""Bases of classes that may make a placement environment."""


def find_env_spec(env_id: str) -> EnvSpec:
    """The registered spec of a placement environment, by its id or ``"module:id"``.

    Raises:
        UserError: The id is unknown, or not that of a placement environment.
    """
    module, _, name = env_id.rpartition(":")
    if ":" in module:
        raise UserError(f"an environment is named without a module here: {name!r}")
    try:
        if module:
            import_module(module)
        spec = gym.spec(name)
    except gym.error.Error:
        raise unknown_name("env", name, placement_ids()) from None
    except ModuleNotFoundError as error:
        raise UserError(str(error)) from error
    if not is_placement_env(spec):
        raise not_placement(name)
    return spec


def is_placement_env(spec: EnvSpec) -> bool:
    """Return whether a spec may make a placement environment."""
    creator = find_creator(spec)
    if isinstance(creator, type):
        return issubclass(creator, PLACEMENT_CLASSES)
    return creator is not None  # only a call of a function shows what it makes


def not_placement(name: str) -> UserError:
    """Make the error for an environment that is not a placement environment."""
    *ids, last_id = placement_ids()
    remedy = ""
    if name.startswith(OWN_IDS):  # policies of Stream and Online are compared by their rewards
        remedy = f", or evaluate policies of {name} with Stable-Baselines3's evaluate_policy"
    return UserError(
        f"{name} is not a placement environment; use {', '.join(ids)} or {last_id}{remedy}"
    )


def placement_ids() -> list[str]:
    """This package's ids of placement environments, sorted."""
    return sorted(
        name
        for name, spec in gym.registry.items()
        if name.startswith(OWN_IDS) and is_placement_env(spec)
    )


def find_creator(spec: EnvSpec) -> Callable[..., Any] | None:
    """The callable of a spec; None if it has none, or it cannot be imported."""
    try:
        entry_point = spec.entry_point
        return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except (ImportError, AttributeError, gym.error.Error) as error:
        raise_interrupt(error)
        return None
