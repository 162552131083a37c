"""What an environment shows of itself: text and pictures."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from fakes import (
    LIMITED,
    diamond_backend,
    diamond_env,
    diamond_problem,
    play_actions,
)

import placement_gym  # noqa: F401  registers the ids
from placement_gym.env import DevicePlacementEnv


def test_ansi_shows_the_latency_the_devices_and_a_letter_for_each_unit() -> None:
    env = diamond_env(render_mode="ansi")
    play_actions(env, [0, 1, 1, 0])
    text = env.render()
    assert isinstance(text, str)
    title, *rows = text.splitlines()
    assert "diamond" in title
    assert "10.875 ms" in title
    assert any("CPU" in row and "2 units" in row for row in rows)
    assert any("GPU" in row and "2 units" in row for row in rows)
    assert rows[-1] == "ABBA"


def test_ansi_says_why_a_placement_is_infeasible() -> None:
    env = DevicePlacementEnv(diamond_backend(diamond_problem(LIMITED)), render_mode="ansi")
    play_actions(env, [1, 1, 1, 1])
    assert "infeasible, GPU holds" in str(env.render())


def test_ansi_names_a_test_bed() -> None:
    env = gym.make("DevicePlacementSim-v0", model="tiny", devices="cpu-testbed", render_mode="ansi")
    _, info = env.reset()
    assert "(test bed)" in str(env.render())
    assert info["testbed"]


def test_human_mode_prints_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    env = diamond_env(render_mode="human", horizon=2)
    play_actions(env, [0, 1, 1, 0], [1, 1, 1, 1])
    printed = capsys.readouterr().out.splitlines()
    assert "ABBA" in printed
    assert "BBBB" in printed


def test_rgb_array_is_a_picture_that_shows_the_placement() -> None:
    env = diamond_env(render_mode="rgb_array", horizon=2)
    frames = []
    env.reset()
    for action in ([0, 0, 0, 0], [0, 1, 1, 0]):
        env.step(action)
        frames.append(env.render())
    for frame in frames:
        assert isinstance(frame, np.ndarray)
        assert frame.dtype == np.uint8
        assert frame.ndim == 3
        assert frame.shape[2] == 3
    assert not np.array_equal(frames[0], frames[1])
