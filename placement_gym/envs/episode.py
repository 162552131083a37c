"""Episodes: the placement that one begins with, and playing one."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from placement_gym.base import IntArray, UserError, check_choice
from placement_gym.problem import Problem, parse_assignment

PLACEMENT = "placement"
"""The one option of ``reset``."""


def read_start(options: Mapping[str, Any] | None, problem: Problem) -> IntArray | None:
    """The (n_units,) assignment that an episode begins with; None for the reference device alone.

    Args:
        options: ``{"placement": ...}`` with a ``Placement``, device names by unit, or device
            indices of units, which may be padded.
        problem: The environment's.

    Raises:
        UserError: There is no such option, or the placement is not of this problem.
    """
    start = find_start(options)
    return None if start is None else parse_start(start, problem)


def find_start(options: Mapping[str, Any] | None) -> Any:
    """The value of the one option of ``reset``; None without it."""
    for name in options or {}:
        check_choice("an option of reset", name, [PLACEMENT])
    return (options or {}).get(PLACEMENT)


def parse_start(start: Any, problem: Problem) -> IntArray:
    """(n_units,) device indices of a ``Placement``, of names by unit or of indices."""
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


def read_starts(
    options: Mapping[str, Any] | None, problem: Problem, num_envs: int
) -> IntArray | None:
    """(num_envs, n_units) assignments that the episodes of a vector begin with, or None.

    Args:
        options: As for ``read_start``, for all environments; or a row of indices for each.
        problem: The environments'.
        num_envs: Their number.

    Raises:
        UserError: As for ``read_start``; or there is not one row for each environment.
    """
    start = find_start(options)
    if start is None:
        return None
    if np.ndim(start) < 2:  # a `Placement` or a mapping has no dimension
        return np.tile(parse_start(start, problem), (num_envs, 1))
    if len(start) != num_envs:
        raise UserError(
            f"the option 'placement' of reset has {len(start)} rows for {num_envs} "
            "environments: pass one row, or one for each"
        )
    return np.stack([parse_start(row, problem) for row in start])


def warn_finished() -> None:
    """Warn that an episode is stepped after its end, as Gymnasium's environments do."""
    gym.logger.warn(
        "this episode has ended, and the step is undefined: call reset() after a step returns "
        "terminated=True"
    )


class Policy(Protocol):
    """An agent that can be benchmarked, as Stable-Baselines3's models can."""

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """The action for an observation, and the next recurrent state."""
        ...


def play_episode(
    env: gym.Env[Any, Any], policy: Policy, deterministic: bool = True, seed: int | None = None
) -> dict[str, Any]:
    """Play one episode and return its last info.

    A policy whose ``predict`` takes ``action_masks``, as MaskablePPO's does, is given them.
    """
    observation, info = env.reset(seed=seed)
    masked = "action_masks" in signature(policy.predict).parameters
    state, done, first = None, False, True
    while not done:
        masks = {"action_masks": env.get_wrapper_attr("action_masks")()} if masked else {}
        action, state = policy.predict(observation, state, first, deterministic, **masks)
        observation, _, terminated, truncated, info = env.step(action)
        done, first = terminated or truncated, False
    return info
