"""Finding the environment that evaluates whole placements, and properties of its wrappers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.problem import check_placement_alone
from placement_gym.problem.costs import Semantics


def find_placement_env(env: gym.Env[Any, Any]) -> DevicePlacementEnv | None:
    """The environment that ``placement_env`` returns; None if there is none."""
    inner = getattr(env, "unwrapped", None)
    if isinstance(inner, DevicePlacementEnv):
        return inner
    from placement_gym.envs.per_unit import PerUnitEnv

    return inner.base if isinstance(inner, PerUnitEnv) else None


def placement_env(env: gym.Env[Any, Any], joint: bool = False) -> DevicePlacementEnv:
    """Return the environment that evaluates whole placements, inside any wrappers.

    Args:
        env: The environment. For one that places one unit per step, the environment inside is
            returned, which has the same placement, measurements and backend but other spaces.
        joint: True if the caller also passes decisions other than the placement.

    Raises:
        TypeError: The innermost environment is not a placement environment.
        UserError: Its actions decide more than the placement, and ``joint`` is False.
    """
    base = find_placement_env(env)
    if base is None:
        several = hasattr(env, "num_envs")
        remedy = "give the agent one environment" if several else "make 'DevicePlacement-v0'"
        raise TypeError(
            f"{getattr(env, 'unwrapped', env)!r} is not a placement environment: {remedy}"
        )
    if not joint:
        check_placement_alone(base.decisions)
    return base


def find_wrapper(env: gym.Env[Any, Any]) -> str:
    """The class name of the outermost wrapper that ``gym.make`` did not add; empty if none."""
    while isinstance(env, gym.Wrapper):
        if not isinstance(env, OrderEnforcing | PassiveEnvChecker | TimeLimit):
            return type(env).__name__
        env = env.env
    return ""


def find_step_limit(env: gym.Env[Any, Any]) -> int | None:
    """The smallest ``max_episode_steps`` of an environment's wrappers; None without one."""
    limits = list[int]()
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def find_semantics(env: DevicePlacementEnv) -> Semantics | None:
    """The semantics of simulated latencies; None if they are measured."""
    backend: Any = env.backend
    while hasattr(backend, "inner"):
        backend = backend.inner
    semantics: Semantics | None = getattr(backend, "semantics", None)
    return semantics
