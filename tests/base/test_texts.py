"""Foreign text is shown as it is, and begins nothing."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from placement_gym.base import (
    escape_figure_text,
    format_bytes,
    format_bytes_apart,
    make_lines_printable,
    make_printable,
)


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
