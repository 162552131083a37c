"""Plays two vector environments with the same actions and compares all that they say."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

Vector = VectorEnv[Any, Any, Any]
KEYS = (
    "latency_ms",
    "reference_ms",
    "best_single_ms",
    "speedup",
    "speedup_vs_best_single",
    "feasible",
)


def same_observation(ours: Any, theirs: Any) -> None:
    if isinstance(ours, np.ndarray):
        ours, theirs = {"all": ours}, {"all": theirs}
    assert set(ours) == set(theirs)
    for key in ours:
        assert ours[key].dtype == theirs[key].dtype
        np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key)


def same_info(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for name in KEYS:
        for key in (name, f"_{name}"):
            assert ours[key].dtype == theirs[key].dtype
            np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key)
    assert ("final_info" in ours) == ("final_info" in theirs)
    if "final_info" in ours:
        same_info(ours["final_info"], theirs["final_info"])
        for ending in ("_final_info", "_final_obs"):
            np.testing.assert_array_equal(ours[ending], theirs[ending])
        for mine, its in zip(ours["final_obs"], theirs["final_obs"], strict=True):
            same_observation(mine, its)


def same_play(ours: Vector, theirs: Vector, n_steps: int, seed: Any) -> None:
    """Reset both and step them with the same random actions."""
    ours.action_space.seed(0)
    starts = ours.reset(seed=seed), theirs.reset(seed=seed)
    same_observation(starts[0][0], starts[1][0])
    same_info(starts[0][1], starts[1][1])
    for _ in range(n_steps):
        actions = ours.action_space.sample()
        mine, its = ours.step(actions), theirs.step(actions)
        same_observation(mine[0], its[0])
        for part in (1, 2, 3):
            assert mine[part].dtype == its[part].dtype
            np.testing.assert_array_equal(mine[part], its[part])
        same_info(mine[4], its[4])
