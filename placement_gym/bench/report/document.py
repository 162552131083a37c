"""Parts of a report in Markdown; they are joined by empty lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from placement_gym.base import make_printable, safe_name
from placement_gym.view.figures import save

MARKS = re.compile(r"[\\`*\[\]<>|&~$]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that begin Markdown, HTML or mathematics anywhere in a line."""
BLOCK = re.compile(r"^([#+=-]|\d+[.)](?= |$))")
"""Beginnings of a heading, list or rule."""
NUMBER = re.compile(r"[-≤±]? ?\.?\d")
"""Beginning of a number: its column is aligned to the right."""


def escape_markdown(text: object) -> str:
    """Escape text within a line, as in a cell."""
    return MARKS.sub(escape_mark, make_printable(text))


def escape_paragraph(text: object) -> str:
    """Escape text at the beginning of a line."""
    escaped = escape_markdown(text)
    return BLOCK.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", escaped)


def escape_mark(found: re.Match[str]) -> str:
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    return entities.get(found[0], f"\\{found[0]}")


def code_span(text: object) -> str:
    printable = make_printable(text)
    fence = "`" * (max((len(run) for run in re.findall("`+", printable)), default=0) + 1)
    space = " " if "`" in printable else ""
    return f"{fence}{space}{printable}{space}{fence}"


def format_heading(text: str, level: int = 2) -> str:
    return f"{'#' * level} {escape_markdown(text)}"


def format_bold(text: str) -> str:
    return f"**{escape_paragraph(text)}**"


def format_table(lines: Sequence[Mapping[str, str]]) -> str:
    """A table from each line's cells by column; missing cells are empty."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    columns = [[escape_markdown(line.get(name, "")) or " " for line in lines] for name in names]
    numbers = [any(map(NUMBER.match, column)) for column in columns]
    sides = ["---:" if number else "---" for number in [False, *numbers[1:]]]
    rows: list[Iterable[str]] = [map(escape_markdown, names), sides, *zip(*columns, strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def save_picture(figure: Figure, folder: Path, name: str, caption: str) -> str:
    """Write a figure next to the report; return the picture with its caption."""
    file = f"{safe_name(name)}.png"
    save(figure, folder / file)
    return f"![{escape_markdown(caption)}]({file})\n\n{escape_paragraph(caption)}"
