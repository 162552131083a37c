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
        return f"{'#' * self.level} {self.text}"

    def html(self) -> str:
        return f"<h{self.level}>{html.escape(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def markdown(self, folder: Path) -> str:
        return self.text

    def html(self) -> str:
        return f'<p class="note">{html.escape(self.text)}</p>'


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self, folder: Path) -> str:
        sides = " --- |" + " ---: |" * (len(self.columns) - 1)
        lines = [f"| {' | '.join(self.columns)} |", f"|{sides}"]
        lines += [f"| {' | '.join(cell or ' ' for cell in row)} |" for row in self.rows]
        return "\n".join(lines)

    def html(self) -> str:
        head = "".join(f"<th>{html.escape(column)}</th>" for column in self.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n"
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
        (folder / self.name).write_bytes(self.png)
        return f"![{self.caption}]({self.name})\n\n{self.caption}"

    def html(self) -> str:
        data = base64.b64encode(self.png).decode()
        caption = html.escape(self.caption)
        return f'<img alt="{caption}" src="data:image/png;base64,{data}"><p>{caption}</p>'

    @cached_property
    def png(self) -> bytes:
        """The picture as a file, drawn once for Markdown and HTML."""
        written = BytesIO()
        self.figure.savefig(written, format="png", dpi=110)
        return written.getvalue()


Block = Heading | Text | Table | Picture


def write_report(blocks: Sequence[Block], folder: Path) -> tuple[Path, Path]:
    """Write ``report.md`` with its pictures and ``report.html``, which holds all of it."""
    markdown, page = folder / "report.md", folder / "report.html"
    markdown.write_text("\n\n".join(block.markdown(folder) for block in blocks) + "\n")
    title = next(block.text for block in blocks if isinstance(block, Heading))
    body = "\n".join(block.html() for block in blocks)
    page.write_text(PAGE.substitute(title=html.escape(title), body=body))
    return markdown, page
