"""Pictures and tables of a page: text of labels stays text, numbers are aligned."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from pages import EVIL

from placement_gym.base.texts import escape_figure_text
from placement_gym.bench.report.document import (
    Heading,
    Picture,
    Table,
    Text,
    make_inline,
    render_page,
)
from placement_gym.view.figures.style import COLOURS, TEXT_AS_TEXT
from placement_gym.view.page import read


def draw(*labels: str) -> Figure:
    figure = Figure()
    axes = figure.add_subplot()
    for index, label in enumerate(labels):
        axes.plot([0, index], label=escape_figure_text(label), color=COLOURS[index])
    axes.legend()
    return figure


def write_svg(figure: Figure) -> str:
    written = BytesIO()
    with rc_context(TEXT_AS_TEXT):
        figure.savefig(written, format="svg")
    return written.getvalue().decode()


def test_ids_and_their_references_begin_alike() -> None:
    drawing = make_inline(write_svg(draw("a", 'id="x" url(#y)')), "own-", "caption")
    assert set(re.findall(r'<[^<>]*\sid="(.{4})', drawing)) == {"own-"}
    assert set(re.findall(r'<[^<>]*(?:href="|url\()#(.{4})', drawing)) == {"own-"}


def test_colours_with_a_meaning_stay() -> None:
    drawing = make_inline(write_svg(draw("a", "b")), "", "caption")
    assert COLOURS[0] in drawing
    assert COLOURS[1] in drawing


def test_labels_of_agents_become_neither_markup_nor_script() -> None:
    plain = render_page([Heading("t", 1), Picture(draw("a"), "p", "c", ["a"]), Text("d")])
    for text in EVIL:
        blocks = [Heading(text, 1), Picture(draw(text), "p", text, [text]), Text(text)]
        page = render_page(blocks)
        for tag in ("script", "img", "i", "input"):
            assert len(re.findall(f"<{tag}[ >]", page)) == len(re.findall(f"<{tag}[ >]", plain))


def test_the_script_writes_no_markup() -> None:
    script = read("report.js", "placement_gym.bench.report")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)


def test_columns_of_numbers_alone_are_aligned_to_the_right(tmp_path: Path) -> None:
    lines = [{"agent": "a", "score": ".5", "found by": "heft"}, {"agent": "b", "score": "optimal"}]
    assert Table.of(lines).markdown(tmp_path).splitlines()[1] == "| --- | ---: | --- |"
