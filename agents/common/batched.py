"""Many placements of one environment a step, for SB3's algorithms."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.common.vec_env import PlacementVecEnv
from placement_gym.env import placement_env
from placement_gym.vector import PlacementVectorEnv


def batched(env: gym.Env[Any, Any], **kwargs: Any) -> PlacementVecEnv:
    """The environment's placements side by side, without its graph.

    Args:
        env: Whose budget and backend they use.
        kwargs: Of ``PlacementVectorEnv``.
    """
    return PlacementVecEnv(PlacementVectorEnv(placement_env(env), observe_graph=False, **kwargs))
