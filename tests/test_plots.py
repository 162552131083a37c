"""Figures: what is drawn of small and of large graphs, of comparisons and of the twin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fakes import diamond_problem
from graphs import chain, op_graph, problem_on
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from placement_gym.plots.comparison import draw_comparison
from placement_gym.plots.large_placement import COLUMNS, work_shares
from placement_gym.plots.placement import MAX_EDGES, TALLEST_ROW, draw_placement, stack_rows
from placement_gym.plots.style import COLOURS, CROSSING, WITHIN


def lines(figure: Figure) -> LineCollection:
    """The edges of a figure, which are one collection."""
    (axes,) = figure.axes
    assert not axes.patches
    assert not axes.lines
    (found,) = (one for one in axes.collections if isinstance(one, LineCollection))
    return found


def circles(figure: Figure) -> dict[str, Any]:
    """(k, 2) positions of circles by colour."""
    points = [one for one in figure.axes[0].collections if isinstance(one, PathCollection)]
    return {to_hex(one.get_facecolor()[0]): np.asarray(one.get_offsets()) for one in points}


def line_colours(figure: Figure) -> list[str]:
    return [to_hex(colour) for colour in np.asarray(lines(figure).get_colors())]


def test_every_unit_is_a_circle_and_every_edge_a_line_coloured_by_device() -> None:
    figure = draw_placement(diamond_problem(), np.array([0, 0, 1, 1]), "diamond")
    assert circles(figure)[COLOURS[0]].tolist() == [[0.0, -0.5], [1.0, 0.0]]
    assert circles(figure)[COLOURS[1]].tolist() == [[1.0, -1.0], [2.0, -0.5]]
    assert line_colours(figure) == [WITHIN, WITHIN, CROSSING, CROSSING]


def test_a_single_unit_can_be_drawn() -> None:
    figure = draw_placement(problem_on(chain(1)), np.array([1]), "one unit")
    assert circles(figure)[COLOURS[1]].tolist() == [[0.0, 0.0]]
    assert not lines(figure).get_segments()


def test_an_edge_that_skips_a_level_bends_past_the_units_in_between() -> None:
    problem = problem_on(op_graph(3, [(0, 1), (0, 2), (1, 2)]))
    segments = lines(draw_placement(problem, np.zeros(3, dtype=np.int64), "")).get_segments()
    lowest = sorted(float(np.asarray(segment)[:, 1].min()) for segment in segments)
    assert lowest == [pytest.approx(-0.3), 0.0, 0.0]


def test_a_large_graph_is_drawn_as_groups_in_a_lane_per_device() -> None:
    n = 3 * MAX_EDGES
    half = np.repeat([0, 1], n // 2)
    figure = draw_placement(problem_on(chain(n)), half, "long chain")
    found = circles(figure)
    assert [set(found[colour][:, 1]) for colour in COLOURS[:2]] == [{0.0}, {1.0}]
    assert found[COLOURS[0]][:, 0].tolist() == list(range(COLUMNS // 2))
    assert found[COLOURS[1]][:, 0].tolist() == list(range(COLUMNS // 2, COLUMNS))
    assert sorted(line_colours(figure)) == [CROSSING] + [WITHIN] * (COLUMNS - 2)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["CPU: 50% of units", "CPU_FAST: 50% of units"]


def test_the_size_of_a_large_picture_does_not_grow_with_the_graph() -> None:
    rng = np.random.default_rng(0)
    n_lines = []
    for n in (2 * MAX_EDGES, 8 * MAX_EDGES):
        figure = draw_placement(problem_on(chain(n)), rng.integers(0, 2, n), "")
        n_lines.append(len(lines(figure).get_segments()))
    assert n_lines[0] == n_lines[1] <= 5 * COLUMNS


def test_shares_of_work_add_up_in_every_column_even_without_work() -> None:
    problem = problem_on(replace(chain(8), flops=np.zeros(8)))
    column = np.arange(8) // 2
    shares = work_shares(problem, np.array([0, 0, 1, 1, 0, 1, 1, 0]), column, 4)
    assert shares.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]


def test_wide_levels_do_not_make_a_tower_of_the_picture() -> None:
    row = np.repeat([0, 1], [400, 3])
    y = np.concatenate([np.arange(400.0), np.arange(3.0)])
    down = stack_rows(row, y)
    assert np.ptp(down[:400]) == pytest.approx(TALLEST_ROW)
    assert np.ptp(down[400:]) == pytest.approx(2.0)
    assert down[:400].min() > down[400:].max()


def test_a_comparison_shows_the_fastest_first_and_leaves_failed_runs_out() -> None:
    rows = [
        {"label": label, "latency_ms": ms, "speedup_vs_best_single": speedup, "noise": 0.1}
        | {"beats_best_single": wins}
        for label, ms, speedup, wins in (
            ("slow", 20.0, 0.5, "no"),
            ("failed", None, None, "no"),
            ("quick", 5.0, 2.0, "yes"),
        )
    ]
    (axes,) = draw_comparison(rows, "title").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["quick", "slow"]
    assert [text.get_text() for text in axes.texts] == ["5.00 ms", "20.00 ms"]
    widths = [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]
    assert widths == [2.0, 0.5]


def test_a_comparison_shows_noise_as_a_share_of_the_speedup() -> None:
    row = {"label": "quick", "latency_ms": 5.0, "beats_best_single": "yes"}
    row |= {"speedup_vs_best_single": 2.0, "noise": 0.1}
    (axes,) = draw_comparison([row], "title").axes
    (whisker,) = (one for one in axes.collections if isinstance(one, LineCollection))
    assert np.asarray(whisker.get_segments())[0, :, 0].tolist() == pytest.approx([1.8, 2.2])
