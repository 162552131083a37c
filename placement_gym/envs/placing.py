"""Playing an episode with a trained agent, and the placement that it ends with."""

from __future__ import annotations

from inspect import signature
from typing import Any, Protocol

import gymnasium as gym

from placement_gym.base import UserError
from placement_gym.envs.placement_env import placement_env
from placement_gym.envs.reading import check_sizes, read_sizes
from placement_gym.problem import Placement


class Policy(Protocol):
    """An agent that can be benchmarked, as Stable-Baselines3's models can."""

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """Return the action for an observation, and the next recurrent state."""
        ...


def play_episode(
    env: gym.Env[Any, Any], policy: Policy, deterministic: bool = True, seed: int | None = None
) -> dict[str, Any]:
    """Play one episode and return its last info.

    Action masks are passed to a ``predict`` that takes ``action_masks``, as MaskablePPO's does. A
    model of Stable-Baselines3 that trained under ``VecNormalize`` sees normalised observations.
    """
    observation, info = env.reset(seed=seed)
    normalizer = getattr(policy, "get_vec_normalize_env", lambda: None)()
    masked = "action_masks" in signature(policy.predict).parameters
    state, done, first = None, False, True
    while not done:
        masks = {"action_masks": env.get_wrapper_attr("action_masks")()} if masked else {}
        seen = observation if normalizer is None else normalizer.normalize_obs(observation)
        action, state = policy.predict(seen, state, first, deterministic, **masks)
        observation, _, terminated, truncated, info = env.step(action)
        done, first = terminated or truncated, False
    return info


def place(model: Policy, env: gym.Env[Any, Any]) -> Placement:
    """Play one deterministic episode and return the placement that was evaluated last.

    With ``repair=True`` this placement fits, even if the action of ``predict`` does not.

    Args:
        model: Anything with ``predict``: a model of Stable-Baselines3, or an agent.
        env: A placement environment, wrapped or not, that places all units at once or one unit per
            step.

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
