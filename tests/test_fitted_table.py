"""Tables fit their terminal: columns go, numbers stay whole."""

from __future__ import annotations

import pytest
from rich.console import Console

from placement_gym.fitted_table import Column, FittedTable

NUMBERS = ("1234.56", "0.9876", "87654.32", "0.123")
COLUMNS = [
    Column("agent", text=True),
    Column("ms"),
    Column("x best single"),
    Column("seconds of search", spare=1),
    Column("gap", spare=2),
]


def render(width: int, label: str = "random-blocks", columns: list[Column] = COLUMNS) -> str:
    table = FittedTable(columns, "resnet on CPU, GPU")
    table.add_row(label, *NUMBERS[: len(columns) - 1])
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_a_wide_terminal_shows_all_columns() -> None:
    printed = render(120)
    assert all(number in printed for number in NUMBERS)
    assert "No room" not in printed


def test_the_most_dispensable_columns_go_first_and_are_named() -> None:
    printed = render(50)
    assert "0.123" not in printed
    assert "87654.32" in printed
    assert "No room for gap" in printed


@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width: int) -> None:
    printed = render(width, label="a very long label of an agent with many options " * 3)
    assert max(map(len, printed.splitlines())) <= width
    assert "1234.56" in printed
    assert "0.9876" in printed
    assert "…" not in printed


def test_of_a_long_label_nothing_is_lost() -> None:
    assert render(60, "Q" * 90).count("Q") == 90


def test_brackets_and_escapes_in_cells_are_shown_as_they_are() -> None:
    assert "[red]x\\x1b" in render(80, label="[red]x\x1b")


def test_a_column_without_contents_is_left_out() -> None:
    table = FittedTable([Column("a", text=True), Column("never", text=True)])
    table.add_row("x", "")
    console = Console(width=80)
    with console.capture() as captured:
        console.print(table)
    assert "never" not in captured.get()
