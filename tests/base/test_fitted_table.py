"""Tables fit their terminal: columns go, numbers stay whole."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from placement_gym.base import Column, FittedTable, FittedText

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
    return show(table, width)


def show(what: FittedTable | FittedText, width: int) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(what)
    return captured.get()


def test_a_wide_terminal_shows_all_columns() -> None:
    printed = render(120)
    assert all(number in printed for number in NUMBERS)
    assert "Hidden" not in printed


def test_the_most_dispensable_columns_go_first_and_are_named() -> None:
    printed = render(50)
    assert "0.123" not in printed
    assert "87654.32" in printed
    assert re.search("Hidden .*: gap", printed)


@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width: int) -> None:
    printed = render(width, label="a very long label of an agent with many options " * 3)
    assert max(map(len, printed.splitlines())) <= width
    assert "1234.56" in printed
    assert "0.9876" in printed
    assert "…" not in printed


@pytest.mark.parametrize("width", [1, 5, 15])
def test_the_narrowest_terminal_shows_a_column(width: int) -> None:
    printed = render(width, columns=[Column("a", spare=1, text=True), Column("b", spare=2)])
    assert "r" in printed
    empty = FittedTable([Column("agent", text=True), Column("ms")])
    empty.add_row("-", "")
    assert "-" in show(empty, width)


@pytest.mark.parametrize("width", range(45, 80, 5))
def test_a_number_and_its_sign_stay_in_one_line(width: int) -> None:
    columns = [Column("agent", text=True), Column("gap"), *COLUMNS[1:3], Column("infeas.", spare=1)]
    table = FittedTable(columns)
    table.add_row("random-blocks", "≤ 18.1 %", "1234.56", "0.983 ±0.044", "12.0 % (3.5 %)")
    printed = show(table, width)
    assert max(map(len, printed.splitlines())) <= width
    for number in ("≤ 18.1 %", "1234.56", "0.983 ±0.044"):
        assert number in printed


@pytest.mark.parametrize("width", range(20, 60))
def test_text_keeps_a_number_and_its_unit_together(width: int) -> None:
    text = FittedText("[b] annealing by 19.7 %; mine by 18.1 %; it took 12 ms", "red")
    lines = show(text, width).splitlines()
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if line.split()[0] in ("%;", "%", "ms")]
    assert " ".join(lines) == "[b] annealing by 19.7 %; mine by 18.1 %; it took 12 ms"


@pytest.mark.parametrize("width", range(30, 90))
def test_a_header_that_is_wider_than_its_numbers_cuts_none(width: int) -> None:
    columns = [*COLUMNS[:3], Column("wall s", spare=1)]
    table = FittedTable(columns)
    table.add_row("single-device CPU", "1234.57", "0.083", "0.03")
    printed = " ".join(show(table, width).split())  # a line may be wrapped
    hidden = re.search("Hidden .*: wall s", printed)
    assert hidden or ("wall s" in printed and "0.03" in printed)


def test_a_name_to_be_typed_is_not_wrapped() -> None:
    columns = [Column("preset", text=True, whole=True), Column("what it is", text=True)]
    table = FittedTable(columns)
    table.add_row("cpu-testbed-limited", "two virtual devices of one CPU, one of which is small")
    printed = show(table, 40)
    assert "cpu-testbed-limited " in printed
    assert max(map(len, printed.splitlines())) <= 40


def test_a_column_of_dashes_or_nothing_is_left_out() -> None:
    table = FittedTable([Column("a", text=True), Column("gap"), Column("never"), Column("ms")])
    table.add_row("x", "-", "", "1.00")
    table.add_row("best", "", "", "-")
    printed = show(table, 80)
    assert "gap" not in printed
    assert "never" not in printed
    assert "ms" in printed


def test_of_a_long_label_nothing_is_lost() -> None:
    assert render(60, "Q" * 90).count("Q") == 90


def test_brackets_and_escapes_in_cells_are_shown_as_they_are() -> None:
    assert "[red]x\\x1b" in render(80, label="[red]x\x1b")
