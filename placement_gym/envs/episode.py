"""Episodes: their options, and the placement that one begins with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from placement_gym.base import (
    MAX_HORIZON,
    IntArray,
    UserError,
    check_choice,
    check_flag,
    parse_count,
)
from placement_gym.envs.rewards import REWARDS, check_reward
from placement_gym.problem import Problem, parse_assignment

RENDER_MODES = ["ansi", "human", "rgb_array"]
PLACEMENT = "placement"
"""The one option of ``reset``."""


def check_options(reward: str, horizon: float, repair: bool, render_mode: str | None) -> None:
    """Check options that all environments share, before a model is loaded."""
    check_reward(reward, REWARDS)
    parse_count("horizon", horizon, 1, MAX_HORIZON)
    check_flag("repair", repair)
    check_render_mode(render_mode)


def check_render_mode(render_mode: Any) -> None:
    """Check that a mode is None or one of ``RENDER_MODES``."""
    if render_mode is not None:
        check_choice("render_mode", render_mode, RENDER_MODES)


def find_start(options: Mapping[str, Any] | None) -> Any:
    """The placement in the options of ``reset``, or None; other options raise."""
    for name in options or {}:
        check_choice("an option of reset", name, [PLACEMENT])
    return (options or {}).get(PLACEMENT)


def parse_start(start: Any, problem: Problem) -> IntArray:
    """(n_units,) device indices from a ``Placement``, names by unit, or padded indices."""
    if hasattr(start, "assignment"):
        assignment: IntArray = start.assignment(problem)
        return assignment
    if isinstance(start, Mapping):
        return parse_assignment(start, problem)
    devices = np.asarray(start)
    if devices.dtype.kind not in "iu" or devices.ndim != 1 or len(devices) < problem.n_units:
        raise UserError(
            "the option 'placement' of reset is a Placement, the name of each unit's device or "
            f"{problem.n_units} device indices, not {start!r:.200}"
        )
    devices = devices[: problem.n_units].astype(np.int64)
    problem.check(devices)
    return devices


def warn_finished() -> None:
    """Warn of a step after the end of an episode, as Gymnasium's environments do."""
    gym.logger.warn(
        "this episode has ended, and the step is undefined: call reset() after a step returns "
        "terminated=True"
    )
