"""Learners whose first evaluations are placements of heuristics or of a search."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.common.factory import Method, make_learner
from agents.options import hands_on_to
from agents.search.starts import NOTHING, begin


@hands_on_to(make_learner)
def make_started_learner(
    method: Method, env: gym.Env[Any, Any], seed: int, begin_with: str = NOTHING, **choices: Any
) -> Any:
    """Make a learned agent for one environment, optionally with initial proposals.

    Args:
        method: Its policy, algorithm and presets.
        env: The environment to learn in.
        seed: Seed of all random numbers.
        begin_with: The first evaluations: ``"nothing"``, ``"heuristics"`` or ``"search"``, see
            ``agents.search.starts``.
        choices: Arguments of ``agents.common.factory.make_learner``.

    Raises:
        FileError: See ``make_learner``.
        UserError: ``begin_with`` is unknown; or see ``make_learner``.
    """
    model = make_learner(method, env, seed, **choices)
    begin(model.policy, env, begin_with, seed)
    return model
