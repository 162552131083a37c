"""Placements of heuristics, evaluated first and imitated where a learner keeps elites."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.common.policy import UnitPolicy
from agents.search.starts import RANDOM, propose_starts

__all__ = ["RANDOM", "begin_with"]


def begin_with(policy: Any, env: gym.Env[Any, Any], start: str) -> None:
    """Let a policy's first samples be the placements that a search would start from.

    Args:
        policy: A policy that places all units at once.
        env: Its environment; nothing is evaluated yet.
        start: See ``agents.search.starts.propose_starts``; ``"random"`` samples from the beginning.
    """
    assert isinstance(policy, UnitPolicy)
    starts = propose_starts(env, start)
    policy.proposals = () if starts is None else list(starts)
