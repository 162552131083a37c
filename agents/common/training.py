"""Training of learned agents across generated problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import DummyVecEnv

from agents.common.graph_policy import GraphPolicy
from agents.common.make import silence
from agents.common.reinforce import REINFORCE
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


@dataclass(frozen=True)
class Trainer:
    """A policy with settings for training across generated problems: calling it makes a model.

    Attributes:
        policy: Class of the policy.
        options: Its options.
        settings: Arguments of the algorithm; without ``n_steps`` a rollout has ``episodes`` steps.
        algorithm: Class of the algorithm.
        rollouts: Makes the environments of ``problems`` and ``episodes``.
    """

    policy: type[GraphPolicy]
    options: Mapping[str, Any]
    settings: Mapping[str, Any]
    algorithm: type[REINFORCE] = REINFORCE
    rollouts: Callable[..., Any] = make_training_envs

    def __call__(
        self,
        seed: int = 0,
        problems: int = 8,
        episodes: int = 8,
        policy: Mapping[str, Any] | None = None,
        envs: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Any:
        """Make an algorithm that learns on problems of the split ``train``; ``learn`` draws them.

        An update compares each placement, or each step of an episode, with the others of its
        problem. Placements beyond a limit are repaired. Pass the trained network to ``agents.make``
        as ``weights``, for environments of the same ``max_devices``.

        Args:
            seed: Of weights and problems.
            problems: Problems of an update.
            episodes: Placements of each, at least two.
            policy: Options of the policy that override those of the training.
            envs: Arguments of ``StreamEnv``, as ``make_problem``.
            settings: Arguments of the algorithm that override those of the training.

        Raises:
            UserError: There are fewer than two episodes.
        """
        model = self.algorithm(
            self.policy,  # type: ignore[arg-type]
            self.rollouts(problems, episodes, **(envs or {})),
            seed=seed,
            policy_kwargs={**self.options, **(policy or {})},
            **{"device": "cpu", "n_steps": episodes, **self.settings, **settings},
        )
        silence(model)
        return model
