"""Foreign text is shown as it is, and begins nothing."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from matplotlib.figure import Figure

from placement_gym.base import (
    code_span,
    escape_figure_text,
    escape_markdown,
    escape_paragraph,
    format_bytes,
    format_bytes_apart,
    make_lines_printable,
    make_printable,
)

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


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\rb\x07", "\u202etxt.exe", "\x9b2J", "\0"])
def test_no_control_character_reaches_a_terminal(text: str) -> None:
    assert make_printable(text).isprintable()
    assert all(line.isprintable() for line in make_lines_printable(text).splitlines())


def test_lines_of_a_message_stay_lines() -> None:
    assert make_lines_printable("one\ntwo\x1b") == "one\ntwo\\x1b"


@pytest.mark.parametrize("text", [r"$\frac{$", "$x$ and $", r"\$"])
def test_figures_draw_dollars_without_mathematics(text: str) -> None:
    figure = Figure()
    figure.suptitle(escape_figure_text(text))
    figure.savefig("/dev/null", format="png")


def test_bytes_can_be_read_at_any_size() -> None:
    sizes = (0, 64, 999, 4_200, 99_900, 150_000, 17_300_000, 2.5e9)
    said = ["0 B", "64 B", "999 B", "4.2 kB", "99.9 kB", "0.1 MB", "17.3 MB", "2500.0 MB"]
    assert [format_bytes(size) for size in sizes] == said


def test_two_sizes_have_the_digits_that_tell_them_apart() -> None:
    assert format_bytes_apart(17_300_000, 17_320_000) == ("17.30 MB", "17.32 MB")
    assert format_bytes_apart(64, 4_200) == ("64 B", "4.2 kB")
    assert format_bytes_apart(2**40 + 1, 2**40) == ("1099511.627777 MB", "1099511.627776 MB")
