"""The answer of a trained agent: a placement to deploy."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from placement_gym.base import UserError
from placement_gym.envs.episode import Policy, play_episode
from placement_gym.envs.placement_env import placement_env
from placement_gym.envs.sizes import check_sizes, read_sizes
from placement_gym.problem import Placement


def place(model: Policy, env: gym.Env[Any, Any]) -> Placement:
    """Play one deterministic episode and return its last placement, which can be deployed.

    That is the placement that was evaluated. With ``repair=True`` it fits where the action that
    ``predict`` returns may not.

    Args:
        model: Anything with ``predict``: a model of Stable-Baselines3, or an agent.
        env: Any placement environment, wrapped or not, that places all units at once or one unit
            per step.

    Raises:
        TypeError: ``env`` is not one placement environment.
        UserError: The placement does not fit or does not run, or the model was trained with other
            sizes; the message says what to do.
    """
    base = placement_env(env)
    trained = getattr(model, "observation_space", None)
    check_sizes(read_sizes(trained), read_sizes(env.observation_space))
    info = play_episode(env, model)
    if not info["feasible"]:
        repair = "" if base.repair else "make the environment with repair=True, or "
        raise UserError(
            f"the placement of {type(model).__name__} is infeasible: {info['error']}. To deploy "
            f"one, {repair}take model.best.placement, the best of its training, which "
            "agents.common.callbacks.BestPlacementCallback keeps"
        )
    return base.placement()
