"""Episodes of a policy in which no placement is evaluated."""

from __future__ import annotations

from copy import copy
from typing import Any

from placement_gym.arrays import IntArray
from placement_gym.env import DevicePlacementEnv
from placement_gym.episode import Policy
from placement_gym.wrappers import PerUnit


def play_unevaluated_episode(
    policy: Policy,
    env: DevicePlacementEnv,
    deterministic: bool,
    start: IntArray | None = None,
) -> IntArray:
    """(n_units,) final devices of an episode.

    Args:
        policy: A policy for observations of ``PerUnit``.
        env: The environment; it is not changed.
        deterministic: Passed to the policy.
        start: (n_units,) placement that it starts from; None puts all on the reference device.
    """
    per_unit = PerUnit(copy(env))
    observation, _ = per_unit.reset()
    if start is not None:
        per_unit.assignment = start
        observation = per_unit.observe()
    for _ in range(env.problem.n_units):
        device: Any = policy.predict(observation, deterministic=deterministic)[0]
        observation = per_unit.place(device)
    return per_unit.assignment
