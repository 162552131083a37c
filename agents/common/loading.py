"""Loading of what Stable-Baselines3's ``save`` wrote, for algorithms and policies.

Such a file is pickled: loading it runs what it holds, so load your own alone. Weights to pass on
are files of ``agents.common.weights``, which hold no code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from agents.common.vec_env import vectorize
from placement_gym.base.errors import UserError


@contextmanager
def explain_mismatch(path: Any) -> Iterator[None]:
    """Say how to go on where saved weights have other shapes than the networks.

    Raises:
        UserError: They have, as after a change of features.
    """
    try:
        yield
    except RuntimeError as error:
        if "size mismatch" not in str(error):
            raise
        raise UserError(
            f"{path} was saved with other features, whose number its weights fit: train it "
            "again, or load it with the version of placement-gym that saved it"
        ) from error


def fit_env(env: Any, seen: spaces.Space[Any], acted: spaces.Space[Any], n_envs: int) -> Any:
    """An environment for a model, of one that is not vectorised.

    ``agents.make`` trains on many placements at once and without the graph in observations, so the
    spaces of its models are not those of ``gym.make``.

    Args:
        env: Any environment, or its id; all but placement environments are returned as they are.
        seen: Observation space of the model.
        acted: Action space of the model.
        n_envs: Placements at once that it was trained with.
    """
    if isinstance(env, str):
        env = gym.make(env)
    if isinstance(env, VecEnv) or env.observation_space == seen:
        return env
    if not isinstance(seen, spaces.Dict) or not isinstance(acted, spaces.MultiDiscrete):
        return env
    if env.action_space != acted or "x" in seen.spaces:
        return env
    steps: Any = seen["step"]
    horizon = int(steps.high[0])
    return vectorize(env, joint=True, num_envs=n_envs, horizon=horizon)
