"""Units of many placements at once against single environments side by side."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from vector_play import Vector, same_play

from placement_gym.base import UserError
from placement_gym.envs import PerUnitVectorEnv

ENV_ID = "DevicePlacementPerUnitSim-v0"
LIMITED = [{"name": "CPU"}, {"name": "GPU", "weight_share": 0.45}]
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "flat": {"observe": "flat"},
    "flat, event": {"observe": "flat", "schedule": "event", "devices": "cpu+2dgpu"},
    "flat, limits": {"observe": "flat", "devices": LIMITED, "repair": True},
    "flat, padded": {"observe": "flat", "max_devices": 4, "start": "random"},
    "saving": {"reward": "saving", "devices": LIMITED, "start": "random"},
    "saving from the best": {"reward": "saving", "start": "best"},
    "final": {"reward": "final", "final_reward": "improvement", "devices": LIMITED},
    "random": {"start": "random", "noise": 0.2},
    "best": {"start": "best", "noise": 0.2, "devices": LIMITED},
    "best-single": {"start": "best-single", "devices": ["NPU", "GPU"]},
    "repaired": {"repair": True, "devices": LIMITED, "noise": 0.1, "start": "random"},
    "cut": {"max_episode_steps": 3},
    "event": {"schedule": "event", "observe_graph": False},
    "padded": {"max_nodes": 9, "max_edges": 12, "max_devices": 3, "observe_devices": True},
}


def batched(k: int, **options: Any) -> Vector:
    return gym.make_vec(ENV_ID, num_envs=k, **({"model": "tiny"} | options))


def side_by_side(k: int, **options: Any) -> Vector:
    mode = {"autoreset_mode": AutoresetMode.SAME_STEP}
    kwargs = {"model": "tiny"} | options
    return gym.make_vec(ENV_ID, k, vectorization_mode="sync", vector_kwargs=mode, **kwargs)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_a_batch_plays_as_single_environments_do(options: dict[str, Any]) -> None:
    ours, theirs = batched(4, **options), side_by_side(4, **options)
    assert isinstance(ours, PerUnitVectorEnv)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    for seed in (11, [5, None, 5, 8]):
        same_play(ours, theirs, 17, seed=seed)


def test_sixteen_play_as_single_environments_do() -> None:
    for options in ({"observe": "flat"}, {"observe_graph": False}):
        same_play(batched(16, **options), side_by_side(16, **options), 9, seed=0)


def test_episodes_begin_with_the_placements_of_an_option() -> None:
    starts = np.array([[0, 1, 0, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1]])
    for observe in ("graph", "flat"):
        envs = batched(2, observe=observe)
        _, info = envs.reset(options={"placement": starts})
        single = gym.make(ENV_ID, model="tiny")
        for start, latency_ms in zip(starts, info["latency_ms"], strict=True):
            assert single.reset(options={"placement": start})[1]["latency_ms"] == latency_ms


@pytest.mark.parametrize("actions", [[0], [0, 2], [0, -1], [0.0, 1.0], [[0, 1]]], ids=str)
def test_wrong_actions_are_refused(actions: Any) -> None:
    envs = batched(2)
    envs.reset()
    with pytest.raises(UserError, match="actions are 2 device indices from 0 to 1"):
        envs.step(np.array(actions))


def test_a_batch_shows_what_single_environments_do() -> None:
    options = {"render_mode": "ansi", "devices": LIMITED}
    ours, theirs = batched(2, **options), side_by_side(2, **options)
    for envs in (ours, theirs):
        envs.reset(seed=0)
        envs.step(np.array([0, 1]))
    assert ours.render() == theirs.render()
