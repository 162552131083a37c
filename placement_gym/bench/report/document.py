"""A report as blocks, written as Markdown with pictures next to it and as one HTML page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from placement_gym.base.files import safe_name, write_text
from placement_gym.base.texts import code_span, escape_markdown, escape_paragraph, make_printable
from placement_gym.view.figures.results import MAX_LINES, REST, choose_looks
from placement_gym.view.figures.style import COLOURS, CROSSING, GROUND, TEXT_AS_TEXT, WITHIN, save
from placement_gym.view.page import fill_in, hash_source, read

VARIABLES = {GROUND: "ground", CROSSING: "ink", WITHIN: "faint", COLOURS[7]: "ink"}
"""Colours that follow the page's theme, by the name of its variable."""
NUMBER = re.compile(r"[-≤±]? ?\.?\d")
"""Beginning of a number: its column is aligned to the right."""
METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
ID = re.compile(r'(<[^<>]*\s)id="')
REFERENCE = re.compile(r'(url\(#|href="#)')
PATH = re.compile(r'\bd="([^"]*)"')
DIGITS = re.compile(r"(\.\d\d)\d+")
STYLE = re.compile(r'style="[^"]*"')
PARTS = ("report.html", "report.css", "report.js")


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    text: str
    level: int = 2

    def markdown(self, folder: Path) -> str:
        return f"{'#' * self.level} {escape_markdown(self.text)}"

    def html(self, number: int) -> str:
        return f'<h{self.level} id="part-{number}">{escape_html(self.text)}</h{self.level}>'


@dataclass(frozen=True)
class Text:
    """A paragraph; ``kind`` is its class on the page."""

    text: str
    kind: str = "note"

    def markdown(self, folder: Path) -> str:
        escaped = escape_paragraph(self.text)
        return f"**{escaped}**" if self.kind == "summary" else escaped

    def html(self, number: int) -> str:
        return f'<p class="{self.kind}">{escape_html(self.text)}</p>'


@dataclass(frozen=True)
class Link:
    """A link to a file of the report's folder."""

    text: str
    path: str

    def markdown(self, folder: Path) -> str:
        return f"[{escape_markdown(self.text)}]({self.path})"

    def html(self, number: int) -> str:
        return f"<p>{self.anchor}</p>"

    @property
    def anchor(self) -> str:
        return f'<a href="{escape_html(self.path)}">{escape_html(self.text)}</a>'


@dataclass(frozen=True)
class Code:
    """A few words and a command."""

    text: str
    command: str

    def markdown(self, folder: Path) -> str:
        return f"{escape_paragraph(self.text)} {code_span(self.command)}"

    def html(self, number: int) -> str:
        command = escape_html(self.command)
        return f'<p class="note">{escape_html(self.text)} <code>{command}</code></p>'


@dataclass(frozen=True)
class Table:
    """Rows of cells, of which some may be links, under columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Link]]

    @classmethod
    def of(cls, lines: Sequence[Mapping[str, str | Link]]) -> Table:
        """A table of cells by column; what a line lacks is empty."""
        columns = list(dict.fromkeys(name for line in lines for name in line))
        return cls(columns, [[line.get(name, "") for name in columns] for line in lines])

    def markdown(self, folder: Path) -> str:
        first, *rows = (
            [self.cell(cell, folder) for cell in row] for row in (self.columns, *self.rows)
        )
        numbers = [any(map(NUMBER.match, column[1:])) for column in zip(first, *rows, strict=True)]
        sides = [" ---: |" if number else " --- |" for number in [False, *numbers[1:]]]
        lines = [f"| {' | '.join(first)} |", f"|{''.join(sides)}"]
        lines += [f"| {' | '.join(cell or ' ' for cell in row)} |" for row in rows]
        return "\n".join(lines)

    def html(self, number: int) -> str:
        head = "".join(f"<th>{escape_html(column)}</th>" for column in self.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{self.cell(cell)}</td>" for cell in row) + "</tr>\n"
            for row in self.rows
        )
        return (
            f'<div class="table"><table><thead><tr>{head}</tr></thead>\n'
            f"<tbody>{rows}</tbody></table></div>"
        )

    @staticmethod
    def cell(cell: str | Link, folder: Path | None = None) -> str:
        """A cell as Markdown in a folder, else as HTML."""
        if folder is not None:
            return cell.markdown(folder) if isinstance(cell, Link) else escape_markdown(cell)
        return cell.anchor if isinstance(cell, Link) else escape_html(cell)


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with the name of its file and what it shows.

    Attributes:
        figure: It.
        name: Of its file, without an ending.
        caption: What it shows.
        agents: The labels of its lines, which the page can hide, the first in colour.
    """

    figure: Figure
    name: str
    caption: str
    agents: Sequence[str] = field(default=())

    def markdown(self, folder: Path) -> str:
        name, caption = f"{safe_name(self.name)}.png", escape_markdown(self.caption)
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")  # laid out once for both files
        save(self.figure, folder / name)
        return f"![{caption}]({name})\n\n{escape_paragraph(self.caption)}"

    def html(self, number: int) -> str:
        written = BytesIO()
        with rc_context(TEXT_AS_TEXT):
            self.figure.savefig(written, format="svg", metadata={"Date": None})
        drawing = make_inline(written.getvalue().decode(), f"picture-{number}-", self.caption)
        caption = escape_html(self.caption)
        return f"<figure>{drawing}{self.toggles()}<figcaption>{caption}</figcaption></figure>"

    def toggles(self) -> str:
        """A box to tick for each coloured line, and one for the others."""
        if not self.agents:
            return ""
        colours = {agent: look.line["color"] for agent, look in choose_looks(self.agents).items()}
        entries: list[tuple[str, Mapping[int, str]]] = [
            (agent, {index: agent}) for index, agent in enumerate(self.agents[:MAX_LINES])
        ]
        if further := dict(enumerate(self.agents[MAX_LINES:], start=MAX_LINES)):
            entries.append((REST, further))
        boxes = []
        for name, agents in entries:
            names = {index: make_printable(agent) for index, agent in agents.items()}
            colour = colours[next(iter(agents.values()))]
            mark = f'<i style="background:{follow_theme(colour)}"></i>'
            boxes.append(
                f'<label><input type="checkbox" checked data-agents="'
                f'{html.escape(json.dumps(names))}">{mark}{escape_html(name)}</label>'
            )
        return f'<div class="toggles">{"".join(boxes)}</div>'


Block = Heading | Text | Link | Code | Table | Picture


def escape_html(text: str) -> str:
    """The text as HTML shows it, without control characters."""
    return html.escape(make_printable(text))


def write_report(blocks: Sequence[Block], folder: Path, name: str = "report") -> tuple[Path, Path]:
    """Write ``report.md`` with its pictures and ``report.html``, which holds all of it."""
    markdown, page = folder / f"{name}.md", folder / f"{name}.html"
    write_text(markdown, render_markdown(blocks, folder))
    write_text(page, render_page(blocks))
    return markdown, page


def render_markdown(blocks: Sequence[Block], folder: Path = Path()) -> str:
    """The blocks as Markdown; pictures are written into the folder."""
    return "\n\n".join(block.markdown(folder) for block in blocks) + "\n"


def render_page(blocks: Sequence[Block]) -> str:
    """The blocks as one HTML page with contents, which needs no network."""
    template, style, script = (read(name, "placement_gym.bench.report") for name in PARTS)
    headings = [
        (number, block) for number, block in enumerate(blocks) if isinstance(block, Heading)
    ]
    contents = [
        f'<a href="#part-{number}">{escape_html(heading.text)}</a>' for number, heading in headings
    ]
    parts = {
        "title": escape_html(headings[0][1].text),
        "policy": hash_source(script),
        "style": style,
        "script": script,
        "contents": "\n".join(contents),
        "body": "\n".join(block.html(number) for number, block in enumerate(blocks)),
    }
    return fill_in(template, parts)


def make_inline(svg: str, prefix: str, caption: str) -> str:
    """A file that matplotlib has written as an element of a page.

    Args:
        svg: The file.
        prefix: Begins its ids, so that they differ from those of other pictures.
        caption: For readers that do not see it.
    """
    drawing = METADATA.sub("", svg[svg.index("<svg") :])
    drawing = ID.sub(rf'\1id="{prefix}', drawing)
    drawing = REFERENCE.sub(rf"\1{prefix}", drawing)
    drawing = PATH.sub(lambda found: DIGITS.sub(r"\1", found[0]).replace("\n", " "), drawing)
    drawing = STYLE.sub(lambda found: follow_theme(found[0]), drawing)
    head, body = drawing.split(">", 1)
    head = re.sub(r'\s(height|xmlns:xlink|xmlns|version)="[^"]*"', "", head)
    label = html.escape(make_printable(caption))
    return f'{head} role="img" aria-label="{label}">{body}'


def follow_theme(style: str) -> str:
    """A style whose colours are those of the page where they have no meaning of their own."""
    for colour, variable in VARIABLES.items():
        style = style.replace(colour, f"var(--{variable})")
    return style
