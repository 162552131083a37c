"""Placements of heuristics, evaluated first and imitated where a learner keeps elites."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.common.policy import UnitPolicy
from agents.search.joint_moves import extend_starts
from agents.search.starts import RANDOM, propose_starts
from placement_gym.env import placement_env

__all__ = ["RANDOM", "begin_with"]


def begin_with(policy: Any, env: gym.Env[Any, Any], start: str) -> None:
    """Let a policy's first samples be the placements that a search would start from.

    Where priority and fusion are decided, too, these are also tried with what heuristics add.

    Args:
        policy: A policy that places all units at once.
        env: Its environment; nothing is evaluated yet.
        start: See ``agents.search.starts.propose_starts``; ``"random"`` samples from the beginning.
    """
    assert isinstance(policy, UnitPolicy)
    starts = propose_starts(env, start)
    if starts is None:
        policy.proposals = ()
    else:
        policy.proposals = list(extend_starts(placement_env(env, joint=True), starts))
