"""Rewards and infos belong to the episode whose actions earned them, in every autoreset mode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from packaging.version import Version
from vector_play import Vector

ENV_ID = "DevicePlacementSim-v0"
NUM_ENVS = 3
SUMS_SAME_STEP = Version(gym.__version__) >= Version("1.4")
"""Whether Gymnasium's statistics count the first step of an episode after ``SAME_STEP``."""


def make(kind: str, mode: AutoresetMode, **options: Any) -> Vector:
    """Our vector environment, which has one mode, or Gymnasium's."""
    if kind == "ours":
        return gym.make_vec(ENV_ID, NUM_ENVS, model="tiny", **options)
    modes = {"autoreset_mode": mode}
    return gym.make_vec(ENV_ID, NUM_ENVS, kind, modes, model="tiny", **options)


@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("ours", AutoresetMode.SAME_STEP),
        ("sync", AutoresetMode.SAME_STEP),
        ("sync", AutoresetMode.NEXT_STEP),
    ],
)
def test_rewards_and_infos_are_those_of_single_episodes(
    kind: str, mode: AutoresetMode, horizon: int
) -> None:
    """The reward "improvement" depends on the placement before, in the same episode."""
    options: dict[str, Any] = {"horizon": horizon, "reward": "improvement"}
    envs = RecordEpisodeStatistics(make(kind, mode, **options))
    singles = [gym.make(ENV_ID, model="tiny", **options) for _ in range(NUM_ENVS)]
    begins = [one.reset()[1] for one in singles]
    envs.reset(seed=0)
    envs.action_space.seed(0)
    returns, waits = np.zeros(NUM_ENVS), False
    for _ in range(8):
        actions = envs.action_space.sample()
        observation, rewards, terminated, _, info = envs.step(actions)
        if waits:  # the step after an episode resets, and its actions are ignored
            assert not rewards.any()
            assert not observation["placement"].any()
            assert info["latency_ms"].tolist() == [one["latency_ms"] for one in begins]
            waits = False
            continue
        played = [one.step(action) for one, action in zip(singles, actions, strict=True)]
        returns += [reward for _, reward, *_ in played]
        np.testing.assert_allclose(rewards, [reward for _, reward, *_ in played])
        assert terminated.tolist() == [done for _, _, done, *_ in played]
        ended = info.get("final_info", info)
        assert ended["latency_ms"].tolist() == [one["latency_ms"] for *_, one in played]
        if terminated.all():
            if mode is AutoresetMode.NEXT_STEP or SUMS_SAME_STEP:
                np.testing.assert_allclose(info["episode"]["r"], returns)
                assert info["episode"]["l"].tolist() == [horizon] * NUM_ENVS
            returns, waits = np.zeros(NUM_ENVS), mode is AutoresetMode.NEXT_STEP
            begins = [one.reset()[1] for one in singles]
