"""The entry point of ``gym.make`` that places one unit a step, measured."""

from __future__ import annotations

from typing import Any

from placement_gym.envs.measured_env import MeasuredEnv
from placement_gym.envs.per_unit import PerUnitEnv, find_simulated
from placement_gym.envs.twin import make_twin


def measured_per_unit(
    start: str | None = None,
    reward: str | None = None,
    observe: str = "graph",
    costs: str | None = None,
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnitEnv:
    """``DevicePlacementPerUnit-v0``: places one unit per step, measured with OpenVINO.

    Args:
        start: See ``PerUnitEnv``.
        reward: See ``PerUnitEnv``.
        observe: See ``PerUnitEnv``.
        costs: As for ``MeasuredEnv``, needed by ``observe="flat"`` and ``reward="saving"``; the
            last placement of an episode is measured.
        final_reward: The reward of all environments that ``reward="final"`` pays.
        kwargs: As for ``MeasuredEnv``.
    """
    base = MeasuredEnv(reward=final_reward, costs=costs, **kwargs)
    twin = None if costs is None else find_simulated(make_twin(base).backend)
    return PerUnitEnv(base, start, reward, observe, twin)
