"""The entry points of ``gym.make`` that place one unit a step."""

from __future__ import annotations

from typing import Any

from placement_gym.envs.measured_env import MeasuredEnv
from placement_gym.envs.per_unit import PerUnitEnv
from placement_gym.envs.simulated_env import SimulatedEnv


def measured_per_unit(
    start: str | None = None,
    reward: str | None = None,
    observe: str = "graph",
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnitEnv:
    """``DevicePlacementPerUnit-v0``: places one unit per step, measured with OpenVINO.

    Args:
        start: See ``PerUnitEnv``.
        reward: See ``PerUnitEnv``.
        observe: See ``PerUnitEnv``; ``"flat"`` and ``reward="saving"`` need ``costs="profiled"``.
        final_reward: The [reward](env.py#rewards) that ``reward="final"`` pays.
        kwargs: As for [DevicePlacement-v0](env.py#arguments), or simulated as for
            [DevicePlacementSim-v0](simulated_env.py#arguments).
    """
    return PerUnitEnv(MeasuredEnv(reward=final_reward, **kwargs), start, reward, observe)


def simulated_per_unit(
    start: str | None = None,
    reward: str | None = None,
    observe: str = "graph",
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnitEnv:
    """``DevicePlacementPerUnitSim-v0``: places one unit per step, simulated.

    Args:
        start: See ``PerUnitEnv``.
        reward: See ``PerUnitEnv``.
        observe: See ``PerUnitEnv``.
        final_reward: The reward of ``DevicePlacementSim-v0`` that ``reward="final"`` pays.
        kwargs: As for ``SimulatedEnv``.
    """
    return PerUnitEnv(SimulatedEnv(reward=final_reward, **kwargs), start, reward, observe)
