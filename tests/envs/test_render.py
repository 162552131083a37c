# White-box tests of envs, view.figures
"""What an environment shows of itself: text and pictures."""

from __future__ import annotations

import pickle

import gymnasium as gym
import numpy as np
import pytest
from fakes import LIMITED, diamond_backend, diamond_env, diamond_problem, play_actions
from graphs import simulate

from placement_gym.base import IntArray, UInt8
from placement_gym.envs import DevicePlacementEnv
from placement_gym.envs.render import Renderer
from placement_gym.problem import Problem
from placement_gym.view.figures import Film, draw_placement, film, placement, render_pixels


def test_ansi_shows_latency_devices_and_a_letter_for_each_unit() -> None:
    env = diamond_env(render_mode="ansi")
    play_actions(env, [0, 1, 1, 0])
    text = env.render()
    title, *rows = text.splitlines()
    assert "diamond" in title
    assert "10.875 ms" in title
    assert any("CPU" in row and "2 units" in row for row in rows)
    assert any("GPU" in row and "2 units" in row for row in rows)
    assert rows[-1] == "ABBA"


def test_ansi_says_why_a_placement_is_infeasible() -> None:
    env = DevicePlacementEnv(diamond_backend(diamond_problem(LIMITED)), render_mode="ansi")
    play_actions(env, [1, 1, 1, 1])
    assert "infeasible, GPU would hold" in str(env.render())


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
    assert not np.array_equal(frames[0], frames[1])


@pytest.fixture(scope="module")
def problem() -> Problem:
    return simulate("tiny", "op", "cpu+igpu+npu").problem


def random_assignments(problem: Problem, n: int) -> list[IntArray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, len(problem.devices), problem.n_units) for _ in range(n)]


def redraw(problem: Problem, assignment: IntArray, title: str) -> UInt8:
    return render_pixels(draw_placement(problem, assignment, title))


def test_a_frame_that_is_updated_is_that_which_is_drawn_afresh(problem: Problem) -> None:
    updated = Film(problem)
    for number, assignment in enumerate(random_assignments(problem, 3)):
        title = f"frame {number}, $x$"
        frame, whole = updated.render(assignment, title), redraw(problem, assignment, title)
        assert frame.shape == whole.shape
        assert np.abs(frame.astype(int) - whole).max() <= 4  # of 255: two layers are rounded


def test_a_graph_is_laid_out_for_the_first_frame_alone(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange, calls = placement.arrange, []
    monkeypatch.setattr(placement, "arrange", lambda graph: calls.append(graph) or arrange(graph))
    measurement = diamond_backend().evaluate(np.array([0, 1, 1, 0]))
    painter = Renderer()
    for assignment in random_assignments(problem, 3):
        painter.render_rgb(problem, assignment, measurement)
    assert len(calls) == 1
    painter.render_rgb(diamond_problem(), np.array([0, 1, 1, 0]), measurement)
    assert len(calls) == 2


def test_a_large_graph_is_drawn_in_groups_in_every_frame(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (film, placement):
        monkeypatch.setattr(module, "MAX_EDGES", 3)
    first, second = random_assignments(problem, 2)
    updated = Film(problem)
    updated.render(first, "first")
    np.testing.assert_array_equal(updated.render(second, "x"), redraw(problem, second, "x"))


def test_an_env_that_has_drawn_can_be_copied(problem: Problem) -> None:
    env = DevicePlacementEnv(simulate("tiny", "op"), render_mode="rgb_array")
    env.reset()
    frame = env.render()
    copy = pickle.loads(pickle.dumps(env))
    assert copy.painter.film is None
    np.testing.assert_array_equal(copy.render(), frame)


def test_the_title_counts_one_submodel() -> None:
    env = diamond_env(render_mode="ansi")
    play_actions(env, [0, 0, 0, 0])
    assert "1 submodel\n" in str(env.render())
