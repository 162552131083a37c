"""``gym.make`` whose errors tell a user what to change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import signature
from typing import Any

import gymnasium as gym

from placement_gym.entry_points import MeasuredEnv, SimulatedEnv, simulated_per_unit
from placement_gym.errors import unknown_name

UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")
OWN_IDS = "DevicePlacement"


def make_env(env_id: str, env_kwargs: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Make a registered environment.

    Raises:
        UserError: The id or the name of an argument is unknown; the message suggests the nearest.
    """
    try:
        return gym.make(f"placement_gym:{env_id}", **env_kwargs)
    except gym.error.UnregisteredEnv:
        ids = [known for known in gym.registry if known.startswith(OWN_IDS)]
        raise unknown_name("env", env_id, ids) from None
    except TypeError as error:
        found = UNEXPECTED.search(str(error))
        if found is None or not env_id.startswith(OWN_IDS):
            raise
        raise unknown_name(f"an argument of {env_id}", found[1], argument_names(env_id)) from None


def argument_names(env_id: str) -> set[str]:
    """The arguments that ``gym.make`` takes for one of our environments."""
    env_class = SimulatedEnv if "Sim" in env_id else MeasuredEnv
    names = {*signature(env_class).parameters}
    if "PerUnit" in env_id:
        names |= {*signature(simulated_per_unit).parameters} - {"kwargs"}
    return names
