"""Folders of results: which studies lie there, and what is missing of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from placement_gym.base.errors import UserError, warn_user
from placement_gym.base.files import is_file, write_text
from placement_gym.bench.report.document import Heading, Link, Table, Text, render_page
from placement_gym.bench.run.rows import PACKED_ROWS, ROWS, Json, load_runs
from placement_gym.bench.study.runner import STUDY
from placement_gym.bench.study.spec import STUDIES, Study

PAGES = ("report.html", "board.html", "report.md", "table.md")
"""Files of a folder that show its results, the first of which the index leads to."""


@dataclass(frozen=True)
class ResultFolder:
    """The rows of a folder and the study that they belong to.

    Attributes:
        path: The folder.
        rows: Its runs.
        study: The study; None if it is not known.
    """

    path: Path
    rows: Sequence[Json]
    study: Study | None

    @classmethod
    def load(cls, path: Path) -> ResultFolder:
        """Read the rows of a folder, and the study that it keeps or that the package has."""
        rows = load_runs(path)
        return cls(path, rows, find_study_of(path, {row["key"] for row in rows}))

    @cached_property
    def missing(self) -> int | None:
        """Number of the study's runs that the folder lacks; None if unknown."""
        if self.study is None:
            return None
        return len({task.key for task in self.study.tasks()} - {row["key"] for row in self.rows})

    def describe(self) -> dict[str, Any]:
        """The folder in plain values."""
        return {
            "folder": str(self.path),
            "study": self.study.about if self.study else "",
            "rows": len(self.rows),
            "failed": sum(bool(row["error"]) for row in self.rows),
            "missing": self.missing,
            "agents": len({row["label"] for row in self.rows}),
            "problems": len({row["problem"] for row in self.rows}),
            "last": max((row["time"] for row in self.rows), default="")[:16].replace("T", " "),
        }


def find_folders(root: str | Path) -> list[Path]:
    """The folders with result rows, a folder itself and those below it.

    Raises:
        UserError: There is none.
    """
    files = (path for name in (ROWS, PACKED_ROWS) for path in Path(root).rglob(name))
    folders = sorted({path.parent for path in files})
    if not folders:
        raise UserError(f"{root} has no folder with {ROWS}: run a study or a comparison first")
    return folders


def find_study_of(path: Path, keys: set[str]) -> Study | None:
    """The study that was last run into a folder, or the package's with most of its keys."""
    if is_file(path / STUDY):
        try:
            return Study.load(path / STUDY)
        except UserError as error:
            warn_user(str(error))
    shipped = [Study.load(file) for file in sorted(STUDIES.glob("*.yaml"))]
    shared = [len({task.key for task in study.tasks()} & keys) for study in shipped]
    return shipped[shared.index(max(shared))] if any(shared) else None


def write_index(root: str | Path, folders: Sequence[ResultFolder]) -> Path:
    """Write ``index.html`` with a line for each folder, which leads to its report.

    Raises:
        FileError: It cannot be written.
    """
    lines = []
    for folder in folders:
        line = {
            name: "-" if value is None else str(value) for name, value in folder.describe().items()
        }
        name = str(folder.path.relative_to(root))
        page = next((page for page in PAGES if (folder.path / page).is_file()), None)
        target = quote(str((folder.path / page).relative_to(root))) if page else ""
        lines.append({**line, "folder": Link(name, target) if page else name})
    about = "Each line is a folder of results; missing are runs of its study that have no row yet."
    path = Path(root) / "index.html"
    write_text(path, render_page([Heading("Results", 1), Text(about), Table.of(lines)]))
    return path
