# White-box tests of bench.report
"""Foreign text is shown in Markdown as it is, and begins nothing."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from placement_gym.base import make_printable
from placement_gym.bench.report.document import code_span, escape_markdown, escape_paragraph

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MARKS = st.text(alphabet="*_`[](){}<>#+-=.!|&~$\\\n \t1aB:/\x1b\u202e")
ATTACKS = (
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![x](http://example.org/a.png)",
    "| a | b |",
    "# heading",
    "1. list",
    "&lt;b&gt;",
    "__bold__ _x_ CPU_FAST",
    "```\ncode",
    "a\n\n---\n\n# b",
    "<http://example.org>",
)


def shown(markdown: str) -> str:
    """The text of a document that is one paragraph, without any mark in it."""
    tokens = MARKDOWN.parse(markdown)
    if not tokens:
        return ""
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    children = tokens[1].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    return "".join(child.content for child in children)


@pytest.mark.parametrize("text", ATTACKS)
def test_markdown_shows_an_attack_as_text(text: str) -> None:
    assert shown(escape_paragraph(text)) == make_printable(text)


@example("1.")
@given(MARKS)
def test_markdown_shows_any_text_as_it_is(text: str) -> None:
    assert shown(escape_paragraph(text)) == make_printable(text)


@given(MARKS)
def test_a_cell_stays_in_its_column(text: str) -> None:
    table = f"| a | b |\n| --- | --- |\n| {escape_markdown(text)} | end |"
    inline = [token for token in MARKDOWN.parse(table) if token.type == "inline"]
    assert [token.content for token in inline[:2]] == ["a", "b"]
    assert inline[-1].content == "end"
    assert len(inline) == 4
    types = {child.type for child in inline[2].children or []}
    assert types <= {"text", "text_special"}


@given(MARKS)
def test_a_command_is_code_and_nothing_else(text: str) -> None:
    tokens = MARKDOWN.parse(f"Made by {code_span(text)}")
    types = [child.type for child in tokens[1].children or []]
    assert set(types) <= {"text", "code_inline"}


def test_plain_words_stay_readable() -> None:
    for text in ("hill-climb 3", "CPU_FAST: 12.3 ms", "annealing (best)", "≤ 4.2 %"):
        assert escape_paragraph(text) == text
