"""Tables and text that fit a terminal: columns are omitted, numbers are never cut."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from placement_gym.base.texts import make_printable

UNLIMITED_WIDTH = 10_000
"""Width of a table that is not printed to a terminal."""
NO_BREAK = "\N{NO-BREAK SPACE}"
BEFORE_SIGN = re.compile(r"(?<=\d) (?=(?:%|ms|MB|s|x)(?!\w))")
"""Space between a number and its unit, where lines do not break."""
NOTHING = ("", "-")
"""Empty cells."""
HEADER_WIDTH = 12
"""Characters after which a header wraps. Hand-tuned."""
MAX_WORDS, MIN_WORDS = 24, 16
"""Width of a column of words before another column is omitted: one that is always shown, and
another. Hand-tuned."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Header.
        spare: The column with the highest number is omitted first; 0 is always shown.
        text: It holds words, which may be wrapped, not numbers.
        meaning: Explanation in the legend below the table; may be empty.
        whole: Its words are names to type, which are never wrapped.
    """

    name: str
    spare: int = 0
    text: bool = False
    meaning: str = ""
    whole: bool = False


@dataclass(frozen=True)
class FittedText:
    """Text for ``rich`` without markup, in lines that keep numbers with their units."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = BEFORE_SIGN.sub(NO_BREAK, make_printable(self.text))
        lines = fill(text, options.max_width, break_long_words=False, break_on_hyphens=False)
        yield Text(lines.replace(NO_BREAK, " "), self.style, no_wrap=True, overflow="ignore")


class FittedTable:
    """Table for ``rich`` with as many columns as fit."""

    def __init__(self, columns: Sequence[Column], title: str = "") -> None:
        self.columns, self.title = columns, title
        self.rows: list[tuple[Sequence[str], str]] = []

    def add_row(self, *cells: object, style: str = "") -> None:
        """Add a line of cells, without markup."""
        self.rows.append(([make_printable(cell) for cell in cells], style))

    def add_cells(self, cells: Mapping[str, str], style: str = "") -> None:
        """Add a line of cells by column name; missing ones are empty."""
        self.add_row(*(cells.get(column.name, "") for column in self.columns), style=style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        filled = [
            column
            for column in self.columns
            if not self.rows or any(cell not in NOTHING for cell in self.cells(column))
        ] or self.columns[:1]
        columns = self.choose_columns(filled, console, options)
        if self.title:
            yield FittedText(self.title, "italic")
        fits = self.least_width(columns, console, options) <= options.max_width
        yield self.build(columns, wide_words=fits)
        legend = "; ".join(f"{shown.name}: {shown.meaning}" for shown in columns if shown.meaning)
        if legend:
            yield FittedText(legend, "dim")
        hidden = [column.name for column in filled if column not in columns]
        if hidden:
            names = ", ".join(hidden)
            text = f"Hidden for lack of width: {names}. Widen the terminal to see them."
            yield FittedText(text, "dim")

    def choose_columns(
        self, columns: Sequence[Column], console: Console, options: ConsoleOptions
    ) -> list[Column]:
        chosen = list(columns)
        while self.least_width(chosen, console, options) > options.max_width:
            spare = max(chosen, key=lambda column: column.spare)
            if not spare.spare or len(chosen) == 1:
                break
            chosen.remove(spare)
        return chosen

    def least_width(
        self, columns: Sequence[Column], console: Console, options: ConsoleOptions
    ) -> int:
        """Return the width in which no number of these columns is cut."""
        wide = options.update(max_width=UNLIMITED_WIDTH)
        return console.measure(self.build(columns), options=wide).minimum

    def cells(self, column: Column) -> list[str]:
        index = list(self.columns).index(column)
        return [cells[index] for cells, _ in self.rows]

    def build(self, columns: Sequence[Column], wide_words: bool = True) -> Table:
        """Build the table of these columns; ``wide_words`` limits the wrapping of words."""
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for column in columns:
            table.add_column(
                Text(wrap_header(column.name)),
                justify="left" if column.text else "right",
                no_wrap=column.whole or not column.text,
                overflow="fold",
                min_width=self.least_cell_width(column, wide_words),
            )
        lines = zip(*map(self.cells, columns), strict=True)
        for cells, (_, style) in zip(lines, self.rows, strict=True):
            table.add_row(*map(Text, cells), style=style)
        return table

    def least_cell_width(self, column: Column, wide_words: bool) -> int | None:
        """Return the width of a column's longest number or name, or the minimum for words."""
        longest = max(map(len, self.cells(column)), default=0)
        if column.whole or not column.text:
            # rich does not break the header of such a column, and would cut its numbers.
            return max(longest, *map(len, wrap_header(column.name).split("\n")))
        return min(longest, MIN_WORDS if column.spare else MAX_WORDS) if wide_words else None


def word_table(names: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> FittedTable:
    """Make a table of words, with names to type in the first column."""
    columns = [Column(name, text=True, whole=not number) for number, name in enumerate(names)]
    table = FittedTable(columns, title)
    for row in rows:
        table.add_row(*row)
    return table


def wrap_header(name: str) -> str:
    return fill(name, HEADER_WIDTH, break_long_words=False)
