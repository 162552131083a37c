"""A report as blocks, written as Markdown with pictures beside it and as one HTML page."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from string import Template

from matplotlib.figure import Figure

from placement_gym.files import safe_name, write_bytes, write_text
from placement_gym.texts import code_span, escape_markdown, escape_paragraph, make_printable

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
div.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0; }
th, td { padding: .25em .8em; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid #888; }
td { border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
p.note { color: #555; }
</style>
</head>
<body>
$body
</body>
</html>
""")


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    text: str
    level: int = 2

    def markdown(self, folder: Path) -> str:
        return f"{'#' * self.level} {escape_markdown(self.text)}"

    def html(self) -> str:
        return f"<h{self.level}>{escape_html(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def markdown(self, folder: Path) -> str:
        return escape_paragraph(self.text)

    def html(self) -> str:
        return f'<p class="note">{escape_html(self.text)}</p>'


@dataclass(frozen=True)
class Code:
    """A few words and a command."""

    text: str
    command: str

    def markdown(self, folder: Path) -> str:
        return f"{escape_paragraph(self.text)} {code_span(self.command)}"

    def html(self) -> str:
        command = escape_html(self.command)
        return f'<p class="note">{escape_html(self.text)} <code>{command}</code></p>'


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self, folder: Path) -> str:
        sides = " --- |" + " ---: |" * (len(self.columns) - 1)
        first, *rows = (map(escape_markdown, row) for row in (self.columns, *self.rows))
        lines = [f"| {' | '.join(first)} |", f"|{sides}"]
        lines += [f"| {' | '.join(cell or ' ' for cell in row)} |" for row in rows]
        return "\n".join(lines)

    def html(self) -> str:
        head = "".join(f"<th>{escape_html(column)}</th>" for column in self.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape_html(cell)}</td>" for cell in row) + "</tr>\n"
            for row in self.rows
        )
        return f'<div class="table"><table><tr>{head}</tr>\n{rows}</table></div>'


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with the name of its file and what it shows."""

    figure: Figure
    name: str
    caption: str

    def markdown(self, folder: Path) -> str:
        name, caption = safe_name(self.name), escape_markdown(self.caption)
        write_bytes(folder / name, self.png)
        return f"![{caption}]({name})\n\n{escape_paragraph(self.caption)}"

    def html(self) -> str:
        data = base64.b64encode(self.png).decode()
        caption = escape_html(self.caption)
        return f'<img alt="{caption}" src="data:image/png;base64,{data}"><p>{caption}</p>'

    @cached_property
    def png(self) -> bytes:
        """The picture as a file, drawn once for Markdown and HTML."""
        written = BytesIO()
        self.figure.savefig(written, format="png", dpi=110)
        return written.getvalue()


Block = Heading | Text | Code | Table | Picture


def escape_html(text: str) -> str:
    """The text as HTML shows it, without control characters."""
    return html.escape(make_printable(text))


def write_report(blocks: Sequence[Block], folder: Path) -> tuple[Path, Path]:
    """Write ``report.md`` with its pictures and ``report.html``, which holds all of it."""
    markdown, page = folder / "report.md", folder / "report.html"
    write_text(markdown, "\n\n".join(block.markdown(folder) for block in blocks) + "\n")
    title = next(block.text for block in blocks if isinstance(block, Heading))
    body = "\n".join(block.html() for block in blocks)
    write_text(page, PAGE.substitute(title=escape_html(title), body=body))
    return markdown, page
