"""The placement environment inside wrappers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from placement_gym.base.errors import UserError
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.problem.decisions import PLACEMENT_ALONE


def placement_env(env: gym.Env[Any, Any], joint: bool = False) -> DevicePlacementEnv:
    """Return the placement environment inside any wrappers.

    Args:
        env: The environment.
        joint: Whether the caller also passes decisions other than the placement.

    Raises:
        TypeError: The innermost environment is another one.
        UserError: Its actions decide more than the placement, which the caller cannot.
    """
    base = env.unwrapped
    if not isinstance(base, DevicePlacementEnv):
        several = ": give the agent one environment" if hasattr(base, "num_envs") else ""
        raise TypeError(
            f"{base!r} is not a placement environment, as 'DevicePlacement-v0' is{several}"
        )
    if base.decisions != PLACEMENT_ALONE and not joint:
        raise UserError(
            f"this places units and nothing else, but the environment decides {base.decisions}: "
            "make it with decisions=('placement',), or use gdp, annealing, hill-climb or heft"
        )
    return base
