"""Options that all environments share."""

from __future__ import annotations

from typing import Any

from placement_gym.base import MAX_HORIZON, check_choice, check_flag, parse_count
from placement_gym.envs.rewards import REWARDS, check_reward

RENDER_MODES = ["ansi", "human", "rgb_array"]


def check_options(reward: str, horizon: float, repair: bool, render_mode: str | None) -> None:
    """Raise unless an environment can have these options.

    Environments that load a model first, which takes seconds, check them before that.
    """
    check_reward(reward, REWARDS)
    parse_count("horizon", horizon, 1, MAX_HORIZON)
    check_flag("repair", repair)
    check_render_mode(render_mode)


def check_render_mode(render_mode: Any) -> None:
    """Raise unless it is None or a mode that environments render in."""
    if render_mode is not None:
        check_choice("render_mode", render_mode, RENDER_MODES)
