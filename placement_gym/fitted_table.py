"""Tables that fit a terminal: columns are left out where it is narrow, numbers are never cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from placement_gym.texts import make_printable

UNLIMITED = 10_000
HEADER_WIDTH = 12
MAX_WORDS, MIN_WORDS = 24, 16
"""Characters that a column of words gets before another column is left out: always shown or not."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its header.
        spare: The column with the largest number is left out first; 0 is always shown.
        text: Whether it holds words, which may be wrapped, and not numbers.
    """

    name: str
    spare: int = 0
    text: bool = False


class FittedTable:
    """A table for ``rich`` with as many columns as fit.

    Args:
        columns: Its columns, in order.
        title: Above the table, empty for none.
    """

    def __init__(self, columns: Sequence[Column], title: str = "") -> None:
        self.columns, self.title = columns, title
        self.rows: list[tuple[Sequence[str], str]] = []

    def add_row(self, *cells: object, style: str = "") -> None:
        """Add a line; cells are shown as they are, brackets are no markup."""
        self.rows.append(([make_printable(cell) for cell in cells], style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self.choose_columns(console, options)
        hidden = [one.name for one in self.columns if one not in shown]
        if self.title:
            yield Text(make_printable(self.title), style="italic")
        yield self.build(shown)
        if hidden:
            names = ", ".join(hidden)
            yield Text(f"No room for {names}: a wider terminal shows more.", style="dim")

    def choose_columns(self, console: Console, options: ConsoleOptions) -> list[Column]:
        """The columns that fit, in order."""
        shown = [one for one in self.columns if not self.is_empty(one)]
        wide = options.update(max_width=UNLIMITED)
        while True:
            needed = console.measure(self.build(shown), options=wide).minimum
            spare = max(shown, key=lambda one: one.spare)
            if needed <= options.max_width or not spare.spare:
                return shown
            shown.remove(spare)

    def is_empty(self, column: Column) -> bool:
        """Whether a column has rows, but nothing in them."""
        at = list(self.columns).index(column)
        return bool(self.rows) and not any(cells[at] for cells, _ in self.rows)

    def build(self, columns: Sequence[Column]) -> Table:
        """The table with these columns."""
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for one in columns:
            table.add_column(
                Text(fill(one.name, HEADER_WIDTH, break_long_words=False)),
                justify="left" if one.text else "right",
                no_wrap=not one.text,
                overflow="fold",
                min_width=self.least_width(one) if one.text else None,
            )
        at = [list(self.columns).index(one) for one in columns]
        for cells, style in self.rows:
            table.add_row(*(Text(cells[index]) for index in at), style=style)
        return table

    def least_width(self, column: Column) -> int:
        """Characters that words of a column get before another column is left out for them."""
        at = list(self.columns).index(column)
        longest = max((len(cells[at]) for cells, _ in self.rows), default=0)
        return min(longest, MAX_WORDS if column.spare == 0 else MIN_WORDS)
