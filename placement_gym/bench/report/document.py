"""A report as blocks, written as Markdown with its pictures next to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from placement_gym.base import code_span, escape_markdown, escape_paragraph, safe_name, write_text
from placement_gym.view.figures import save

NUMBER = re.compile(r"[-≤±]? ?\.?\d")
"""Beginning of a number: its column is aligned to the right."""


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    text: str
    level: int = 2

    def markdown(self, folder: Path) -> str:
        return f"{'#' * self.level} {escape_markdown(self.text)}"


@dataclass(frozen=True)
class Text:
    """A paragraph, bold if it is the summary."""

    text: str
    bold: bool = False

    def markdown(self, folder: Path) -> str:
        escaped = escape_paragraph(self.text)
        return f"**{escaped}**" if self.bold else escaped


@dataclass(frozen=True)
class Link:
    """A link to a file of the report's folder."""

    text: str
    path: str

    def markdown(self, folder: Path) -> str:
        return f"[{escape_markdown(self.text)}]({self.path})"


@dataclass(frozen=True)
class Code:
    """A few words and a command."""

    text: str
    command: str

    def markdown(self, folder: Path) -> str:
        return f"{escape_paragraph(self.text)} {code_span(self.command)}"


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, lines: Sequence[Mapping[str, str]]) -> Table:
        """A table of cells by column; what a line lacks is empty."""
        columns = list(dict.fromkeys(name for line in lines for name in line))
        return cls(columns, [[line.get(name, "") for name in columns] for line in lines])

    def markdown(self, folder: Path) -> str:
        first, *rows = (
            [escape_markdown(cell) for cell in row] for row in (self.columns, *self.rows)
        )
        numbers = [any(map(NUMBER.match, column[1:])) for column in zip(first, *rows, strict=True)]
        sides = [" ---: |" if number else " --- |" for number in [False, *numbers[1:]]]
        lines = [f"| {' | '.join(first)} |", f"|{''.join(sides)}"]
        lines += [f"| {' | '.join(cell or ' ' for cell in row)} |" for row in rows]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with the name of its file, without an ending, and what it shows."""

    figure: Figure
    name: str
    caption: str

    def markdown(self, folder: Path) -> str:
        name, caption = f"{safe_name(self.name)}.png", escape_markdown(self.caption)
        save(self.figure, folder / name)
        return f"![{caption}]({name})\n\n{escape_paragraph(self.caption)}"


Block = Heading | Text | Link | Code | Table | Picture


def write_report(blocks: Sequence[Block], folder: Path) -> Path:
    """Write ``report.md`` with its pictures into a folder; returns the file."""
    path = folder / "report.md"
    write_text(path, render_markdown(blocks, folder))
    return path


def render_markdown(blocks: Sequence[Block], folder: Path = Path()) -> str:
    """The blocks as Markdown; pictures are written into the folder."""
    return "\n\n".join(block.markdown(folder) for block in blocks) + "\n"
