# White-box tests of view, view.figures
"""Figures: what is drawn of small and of large graphs, of comparisons and of the twin."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import diamond_problem
from graphs import chain, op_graph, problem_on
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from placement_gym.graph import OpGraph
from placement_gym.view.figures import (
    COLOURS,
    WITHIN,
    choose_looks,
    draw_best_so_far,
    draw_comparison,
    draw_if_possible,
    draw_placement,
    save,
)
from placement_gym.view.figures.labels import MAX_NAMED_UNITS
from placement_gym.view.figures.large_placement import COLUMNS, split_into_columns, work_shares
from placement_gym.view.figures.placement import (
    COLUMN_IN,
    LANE_IN,
    MAX_AREA_PT2,
    MAX_EDGES,
    edge_bytes,
)
from placement_gym.view.figures.style import CROSSING
from placement_gym.view.page import PICTURES


def lines(figure: Figure) -> LineCollection:
    """The edges of a figure, which are one collection."""
    (axes,) = figure.axes
    assert not axes.patches
    (found,) = (one for one in axes.collections if isinstance(one, LineCollection))
    return found


def circles(figure: Figure) -> dict[str, Any]:
    """(k, 2) positions of circles by colour."""
    return {
        to_hex(one.get_facecolor()[0]): np.asarray(one.get_offsets())
        for one in find_circles(figure)
    }


def find_circles(figure: Figure) -> list[PathCollection]:
    return [one for one in figure.axes[0].collections if isinstance(one, PathCollection)]


def line_colours(figure: Figure) -> list[str]:
    return [to_hex(colour) for colour in np.asarray(lines(figure).get_colors())]


def names(figure: Figure) -> set[str]:
    return {text.get_text() for text in figure.axes[0].texts}


def draw_on_first_device(graph: OpGraph) -> Figure:
    return draw_placement(problem_on(graph), np.zeros(len(graph), dtype=np.int64), "")


def test_view_draws_units_as_circles_and_edges_as_lines() -> None:
    figure = draw_placement(diamond_problem(), np.array([0, 0, 1, 1]), "diamond")
    first, second = (circles(figure)[colour] for colour in COLOURS[:2])
    x, y = np.concatenate([first, second]).T
    np.testing.assert_allclose(x, np.array([0, 1, 1, 2]) * COLUMN_IN)
    assert y[0] == y[3] == (y[1] + y[2]) / 2
    assert line_colours(figure) == [WITHIN, WITHIN, CROSSING, CROSSING]
    assert names(figure) == {"a", "b", "c", "d"}


def test_a_picture_has_a_key_to_its_colours_sizes_and_edges() -> None:
    figure = draw_placement(diamond_problem(), np.array([0, 0, 1, 1]), "diamond")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        *("CPU", "GPU", "no work", "1 MFLOP", "within a device", "device changes", "3.0 kB")
    ]
    widths = [line.get_linewidth() for line in legend.get_lines()]
    assert widths[-1] == max(np.asarray(lines(figure).get_linewidths()))


@pytest.mark.slow
def test_the_key_has_the_sizes_of_a_crowded_picture_too() -> None:
    figure = draw_on_first_device(replace(chain(900), flops=np.arange(900.0)))
    largest = max(np.max(circle.get_sizes(), initial=0) for circle in find_circles(figure))
    sizes = [line.get_markersize() for line in figure.legends[0].get_lines()]
    assert sizes[3] == pytest.approx(np.sqrt(largest))
    assert largest < MAX_AREA_PT2 / 2


def test_a_single_unit_can_be_drawn() -> None:
    figure = draw_placement(problem_on(chain(1)), np.array([1]), "one unit")
    assert circles(figure)[COLOURS[1]].tolist() == [[0.0, 0.0]]
    assert not lines(figure).get_segments()


def test_an_edge_that_skips_a_layer_passes_beside_its_unit() -> None:
    figure = draw_on_first_device(op_graph(3, [(0, 1), (0, 2), (1, 2)]))
    skipped = circles(figure)[COLOURS[0]][1]
    long = max(map(np.asarray, lines(figure).get_segments()), key=len)
    assert np.hypot(*(long - skipped).T).min() > LANE_IN / 2


def test_long_chain_runs_right_and_back_without_losing_an_edge() -> None:
    figure = draw_on_first_device(chain(300))
    points = circles(figure)[COLOURS[0]]
    for (x, y), (next_x, next_y) in pairwise(points.tolist()):
        beside = abs(next_x - x) == pytest.approx(np.diff(points[:2, 0])[0]) and y == next_y
        assert beside or (next_x == pytest.approx(x) and next_y < y)
    assert len(lines(figure).get_segments()) == 299
    tall, wide = np.ptp(points, axis=0)[::-1]
    assert 0.4 < tall / wide < 1.5
    assert len(names(figure)) == 300


def test_a_wide_layer_is_folded_into_columns() -> None:
    edges = [(0, i) for i in range(1, 301)] + [(i, 301) for i in range(1, 301)]
    figure = draw_on_first_device(op_graph(302, edges))
    points = circles(figure)[COLOURS[0]]
    assert len(np.unique(points.round(3), axis=0)) == 302
    tall, wide = np.ptp(points, axis=0)[::-1]
    assert 0.4 < tall / wide < 1.5
    assert points[0, 0] < points[1:-1, 0].min() < points[1:-1, 0].max() < points[-1, 0]


def test_a_source_is_beside_its_reader() -> None:
    edges = [(i, 6 + i) for i in range(6)] + [(6 + i, 7 + i) for i in range(6)]
    points = circles(draw_on_first_device(op_graph(13, edges)))[COLOURS[0]]
    apart = np.hypot(*(points[:6] - points[6:12]).T)
    assert apart.max() < 2 * COLUMN_IN


def test_names_are_left_out_where_they_would_overlap() -> None:
    rng = np.random.default_rng(0)
    graph = op_graph(500, [(int(rng.integers(0, i)), i) for i in range(1, 500)])
    figure = draw_on_first_device(replace(graph, flops=np.arange(500.0)))
    assert names(figure)
    assert names(figure) <= {f"op{i}" for i in range(500 - MAX_NAMED_UNITS, 500)}


def test_edges_state_the_bytes_that_their_target_reads() -> None:
    graph = diamond_problem().units.quotient
    assert edge_bytes(graph).tolist() == [1000, 1000, 2000, 3000]


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


def test_size_of_a_large_picture_does_not_grow_with_the_graph() -> None:
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


def test_a_large_graph_of_few_levels_fills_several_columns() -> None:
    depth = np.repeat([0, 1, 2], [1, 3000, 1])
    column = split_into_columns(depth)
    assert (np.diff(column) >= 0).all()
    assert np.bincount(column)[[0, -1]].tolist() == [1, 1]
    assert np.ptp(np.bincount(column)[1:-1]) <= 1
    assert 10 < column.max() < COLUMNS


def test_comparison_shows_the_fastest_first_and_no_failed_runs() -> None:
    rows = [
        {"label": label, "latency_ms": ms, "speedup_vs_best_single": speedup, "noise": 0.1}
        | {"beats_best_single": wins}
        for label, ms, speedup, wins in (
            ("slow", 20.0, 0.5, "no"),
            ("failed", None, None, "no"),
            ("quick", 5.0, 2.0, "yes"),
        )
    ]
    figure = draw_comparison(rows, "title")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["quick", "slow"]
    assert [text.get_text() for text in axes.texts] == ["2.000 x, 5.000 ms", "0.500 x, 20.00 ms"]
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == ["beats the best single device"]
    bars = [(bar.get_x(), bar.get_width()) for bar in axes.patches]  # type: ignore[attr-defined]
    assert bars == [(1.0, 1.0), (1.0, -0.5)]


def test_a_large_loss_is_cut_so_that_gains_can_be_seen() -> None:
    rows = [
        {"label": str(speedup), "latency_ms": 1.0, "noise": 0.0, "beats_best_single": "no"}
        | {"speedup_vs_best_single": speedup}
        for speedup in (1.04, 0.02)
    ]
    (axes,) = draw_comparison(rows, "title", {"optimum": 1.05}).axes
    low, high = axes.get_xlim()
    assert 0.7 <= low <= 0.8
    assert high > 1.05
    assert "optimum" in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("kind", ["small", "large", "comparison", "searches"])
def test_a_long_title_continues_in_more_lines(kind: str) -> None:
    title = "Measure again while nothing else runs on this machine. " * 5
    row = {"label": "quick", "latency_ms": 5.0, "noise": 0.0, "speedup_vs_best_single": 2.0}
    if kind == "comparison":
        figure = draw_comparison([row | {"beats_best_single": "yes"}], title)
    elif kind == "searches":
        figure = draw_best_so_far([{"label": "a", "evaluations": 1, "curve": [[1, 0, 1.5]]}], title)
    else:
        graph = chain(2 * MAX_EDGES if kind == "large" else 4)
        figure = draw_placement(problem_on(graph), np.zeros(len(graph), dtype=np.int64), title)
    FigureCanvasAgg(figure).draw()
    (found,) = (one for one in figure.findobj(Text) if one.get_text() == title)
    box = found.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


def test_searches_are_drawn_by_what_they_had_seen() -> None:
    rows = [
        {"label": label, "evaluations": 9, "curve": [[1, 0.1, 1.5], [4, 0.2, best]]}
        for label, best in (("quick", 3.0), ("slow", 2.0), ("quick", 2.5))
    ]
    figure = draw_best_so_far(rows, "title", {"optimum": 3.5})
    drawn = [line.get_ydata() for line in figure.axes[0].lines]
    assert [list(one) for one in drawn[:3]] == [[1.5, 3.0, 3.0], [1.5, 2.0, 2.0], [1.5, 2.5, 2.5]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["quick", "slow"]


def test_eight_lines_have_colours_and_the_rest_is_grey() -> None:
    looks = choose_looks([f"agent {i}" for i in range(12)])
    colours = [look["color"] for look in looks.values()]
    assert len(set(colours[:8])) == 8
    assert colours[8:] == [WITHIN] * 4


@pytest.mark.parametrize("kind", PICTURES)
def test_figures_are_written_as_the_file_is_called(tmp_path: Path, kind: str) -> None:
    files = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for file in files:
        save(draw_placement(diamond_problem(), np.array([0, 0, 1, 1]), "diamond"), file)
    written = [file.read_bytes() for file in files]
    assert written[0].startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind])
    if kind == "svg":
        assert written[0] == written[1]
        assert b">diamond<" in written[0]


def test_a_picture_that_cannot_be_drawn_is_a_note(tmp_path: Path) -> None:
    def fail() -> Figure:
        raise MemoryError("too large")

    earlier = tmp_path / "a.png"
    earlier.touch()
    assert draw_if_possible(fail, earlier) == "a.png could not be drawn: too large"
    assert not earlier.exists()  # it would be taken for this one
    assert not list(tmp_path.iterdir())


def test_a_comparison_shows_noise_as_a_factor_of_the_speedup() -> None:
    row = {"label": "quick", "latency_ms": 5.0, "beats_best_single": "yes"}
    row |= {"speedup_vs_best_single": 2.0, "noise": 0.1}
    (axes,) = draw_comparison([row], "title").axes
    (whisker,) = (one for one in axes.collections if isinstance(one, LineCollection))
    assert np.asarray(whisker.get_segments())[0, :, 0].tolist() == pytest.approx([2.0 / 1.1, 2.2])
