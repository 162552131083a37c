"""An episode of a policy in which nothing is evaluated."""

from __future__ import annotations

from copy import copy
from typing import Any

from placement_gym.arrays import IntArray
from placement_gym.env import DevicePlacementEnv
from placement_gym.episode import Policy
from placement_gym.wrappers import PerUnit


def unscored_episode(policy: Policy, env: DevicePlacementEnv, deterministic: bool) -> IntArray:
    """(n_units,) devices at its end, begun with all units on the reference device.

    Args:
        policy: Answers observations of ``PerUnit``.
        env: What is placed; it stays as it is.
        deterministic: Given to the policy.
    """
    placed = PerUnit(copy(env))
    observation, _ = placed.reset()
    for _ in range(env.problem.n_units):
        device: Any = policy.predict(observation, deterministic=deterministic)[0]
        observation = placed.place(device)
    return placed.assignment
