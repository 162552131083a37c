"""Progress of long work, on standard error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from placement_gym.texts import make_printable


class Description(ProgressColumn):
    """What is done now, which may be the name of a model: brackets in it are no markup."""

    def render(self, task: Task) -> Text:
        return Text(f"{make_printable(task.description):<24}")


@contextmanager
def progress_bar(
    total: int | None, unit: str, quiet: bool, counted: str = ""
) -> Iterator[Progress]:
    """Show a bar with one task on standard error; each warning is printed once.

    Args:
        total: Steps of the task, or None if unknown.
        unit: What a step is.
        quiet: Whether to show nothing.
        counted: What the task's field ``count`` counts beside the steps; empty shows no count.
    """
    columns = (
        Description(),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        *([TextColumn(f"{{task.fields[count]}} {counted}")] if counted else []),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        progress.add_task("starting", total=total, count=0)
        with warnings.catch_warnings():
            warnings.simplefilter("once")
            yield progress
