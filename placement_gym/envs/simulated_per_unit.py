"""The entry point of ``gym.make`` that places one unit a step, simulated."""

from __future__ import annotations

from typing import Any

from placement_gym.envs.per_unit import PerUnitEnv
from placement_gym.envs.simulated_env import SimulatedEnv


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
