# White-box tests of bench.report
"""Blocks of a report as Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from matplotlib.figure import Figure
from pages import EVIL

from placement_gym.base import escape_figure_text
from placement_gym.bench.report.document import (
    format_bold,
    format_heading,
    format_table,
    save_picture,
)
from placement_gym.view.figures import COLOURS


def draw(*labels: str) -> Figure:
    figure = Figure()
    axes = figure.add_subplot()
    for index, label in enumerate(labels):
        axes.plot([0, index], label=escape_figure_text(label), color=COLOURS[index])
    axes.legend()
    return figure


@pytest.mark.parametrize("text", EVIL)
def test_labels_of_agents_do_not_become_markup(text: str, tmp_path: Path) -> None:
    picture = save_picture(draw(text), tmp_path, "p", text)
    parts = [format_heading(text, 1), picture, format_bold(text), format_table([{text: text}])]
    written = "\n\n".join(parts)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(written)
    kinds = {child.type for token in tokens for child in token.children or []}
    strong = {"strong_open", "strong_close"}
    assert kinds <= {"text", "text_special", "image", "html_entity", *strong}
    assert not [token for token in tokens if token.type == "html_block"]
    assert written.count("![") == 1
    assert (tmp_path / "p.png").stat().st_size > 5000


def test_columns_of_numbers_alone_are_aligned_to_the_right() -> None:
    lines = [{"agent": "a", "score": ".5", "found by": "heft"}, {"agent": "b", "score": "optimal"}]
    assert format_table(lines).splitlines()[1] == "| --- | ---: | --- |"
