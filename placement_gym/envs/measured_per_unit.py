"""The entry point of ``gym.make`` that places one unit a step, measured."""

from __future__ import annotations

from typing import Any

from placement_gym.envs.measured_env import MeasuredEnv
from placement_gym.envs.per_unit import PerUnitEnv


def measured_per_unit(
    start: str = "first",
    reward: str = "improvement",
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnitEnv:
    """``DevicePlacementPerUnit-v0``: places one unit per step, measured with OpenVINO.

    Args:
        start: See ``PerUnitEnv``.
        reward: See ``PerUnitEnv``.
        final_reward: The reward of all environments that ``reward="final"`` pays.
        kwargs: As for ``MeasuredEnv``.
    """
    return PerUnitEnv(MeasuredEnv(reward=final_reward, **kwargs), start=start, reward=reward)
