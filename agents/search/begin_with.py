"""Options of all agents: the placements to begin with, and the weight of imitation.

``begin_with`` names the placements that are evaluated first; ``imitate`` is the weight of
imitating the best placements so far. Reinforcement learning from
random starts is ``begin_with="nothing", imitate=0.0``, the default everywhere.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import gymnasium as gym
import numpy as np

from agents.common.policy import UnitPolicy
from agents.search.anytime import SearchAgent
from agents.search.joint_moves import extend_starts
from agents.search.starts import propose_heuristics
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import unknown_name
from placement_gym.envs.placement_env import placement_env

NOTHING, HEURISTICS, SEARCH = "nothing", "heuristics", "search"
CHOICES = (NOTHING, HEURISTICS, SEARCH)
PROPOSED = 20
"""Placements that a search proposes."""


def propose_first(env: gym.Env[Any, Any], begin_with: str, seed: int = 0) -> IntArray:
    """(k, n_units) placements to evaluate first, none for ``"nothing"``; none is evaluated here.

    Args:
        env: The environment.
        begin_with: ``"nothing"``; ``"heuristics"``, see
            ``agents.search.starts.propose_heuristics``; or ``"search"``, what the agent of that
            name would evaluate first.
        seed: Of the search.

    Raises:
        UserError: It is none of these.
    """
    if begin_with not in CHOICES:
        raise unknown_name("begin_with", begin_with, CHOICES)
    base = placement_env(env, joint=True)
    if begin_with == HEURISTICS:
        return propose_heuristics(base)
    if begin_with == SEARCH:
        found = np.stack(list(islice(SearchAgent(base, seed).search.propose(), PROPOSED)))
        found = base.repair_placements(found) if base.repair else found
        for placement in found:
            base.remember_starts({SEARCH: placement})
        return found
    return np.zeros((0, base.problem.n_units), dtype=np.int64)


def begin(policy: Any, env: gym.Env[Any, Any], begin_with: str, seed: int = 0) -> None:
    """Let a policy's first samples be these placements; see ``propose_first``.

    Where priority and fusion are decided, too, these are also tried with what heuristics add.

    Args:
        policy: A policy that places all units at once.
        env: Its environment; nothing is evaluated yet.
        begin_with: See ``propose_first``.
        seed: See ``propose_first``.
    """
    assert isinstance(policy, UnitPolicy)
    proposed = propose_first(env, begin_with, seed)
    if len(proposed):
        policy.proposals = list(extend_starts(placement_env(env, joint=True), proposed))
