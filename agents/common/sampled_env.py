"""Environments for training across problems, whose actions are a device for each unit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import DummyVecEnv

from placement_gym.base.arguments import check_integer
from placement_gym.envs.stream import GRAPH, UNITS, StreamEnv


def make_training_envs(problems: int, episodes: int, **kwargs: Any) -> DummyVecEnv:
    """Make environments for training across problems of the split ``train``.

    A rollout of ``n_steps=episodes`` then has that many placements of each problem.

    Args:
        problems: Of a rollout.
        episodes: Placements of each, at least two.
        kwargs: Further arguments of ``StreamEnv``, as ``make_problem``; problems are drawn from the
            whole split.

    Raises:
        UserError: There are fewer than two episodes, and no baseline for a placement.
    """
    check_integer("episodes", episodes, 2)
    settings = {"n_problems": None, "action": UNITS, "observation": GRAPH, "episodes": episodes}
    make: Callable[[], gym.Env[Any, Any]] = partial(StreamEnv, **settings | kwargs)
    return DummyVecEnv([make] * problems)
