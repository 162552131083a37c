"""Progress on standard error: a bar on a terminal, else lines."""

from __future__ import annotations

import math
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from placement_gym.base.shown_task import SHOWN
from placement_gym.base.texts import make_printable

FIRST_LINE_S, NEXT_LINE_S = 2.0, 30.0
"""Seconds before the first line without a terminal, and between two lines."""


class Description(ProgressColumn):
    """Description of the current step, without markup."""

    def render(self, task: Task) -> Text:
        return Text(f"{make_printable(task.description):<24}")


class TimeLeft(ProgressColumn):
    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        left_s = estimate_left(task)
        text = "-:--:--" if left_s is None else str(timedelta(seconds=round(left_s)))
        return Text(text, "progress.remaining")


def estimate_left(task: Task) -> float | None:
    """Estimate the seconds of the remaining steps from those done; None if there are none."""
    n_done, speed = task.completed - task.fields["begun"], task.speed
    if task.finished or task.total is None or not speed or not task.elapsed or n_done <= 0:
        return None
    mean_s, n_left = 1.0 / speed, task.total - task.completed
    under_way_s = task.elapsed - n_done * mean_s
    # The current step counts as soon as it takes longer than the mean.
    next_s = max(mean_s, task.elapsed / (n_done + 1))
    return max(mean_s - under_way_s, 0.0) + (n_left - 1) * next_s


class ProgressWithHeader(Progress):
    """Bar with a renderable and the reason of a wait above it."""

    def __init__(
        self, *columns: ProgressColumn, above: RenderableType | None, **options: Any
    ) -> None:
        self.above = above
        # A table takes 8 ms, too long for ten times a second while something is measured.
        super().__init__(*columns, refresh_per_second=10 if above is None else 1, **options)

    def stop(self) -> None:
        if not self.disable:  # rich before 14.3 ends a disabled bar with an empty line
            super().stop()

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.above is not None:
            yield self.above
        for task in self.tasks:
            if task.fields["waiting"]:
                yield Text(make_printable(task.fields["waiting"]), "yellow")
        yield from super().get_renderables()


def is_on_terminal() -> bool:
    """Return whether standard error is a terminal."""
    return Console(stderr=True).is_terminal


@contextmanager
def progress_bar(
    total: int | None,
    unit: str,
    quiet: bool,
    counted: str = "",
    description: str = "starting",
    above: RenderableType | None = None,
) -> Iterator[Progress]:
    """Show a bar with one task on standard error; print each warning once.

    Without a terminal, print a line after two seconds and then every half minute.

    Args:
        total: Number of steps; None if unknown.
        unit: Name of the steps.
        quiet: Show nothing.
        counted: Name of what the task's field ``count`` counts; empty if nothing.
        description: Description of the first step.
        above: Shown above the bar on a terminal, also at the end.
    """
    console = Console(stderr=True)
    columns = (
        Description(table_column=Column(no_wrap=True)),
        BarColumn(),
        *([MofNCompleteColumn()] if total is not None else []),
        TextColumn(unit),
        *([TextColumn(f"{{task.fields[count]}} {counted}")] if counted else []),
        TimeElapsedColumn(),
        *([TimeLeft()] if total else []),
    )
    lines = not (quiet or is_on_terminal())
    with ProgressWithHeader(
        *columns,
        above=above,
        console=console,
        disable=quiet or lines,
        transient=total is None,  # a bar without steps tells nothing at the end
        speed_estimate_period=math.inf,  # all steps: the last 30 s may hold two that ended at once
    ) as progress:
        progress.add_task(description, total=total, count=0, waiting="", begun=0)
        begin(progress)
        task = progress.tasks[0]
        token = SHOWN.set(task)
        try:
            with warnings.catch_warnings(), line_printer(task, unit, counted, lines):
                warnings.simplefilter("once")
                yield progress
        finally:
            SHOWN.reset(token)


def begin(progress: Progress, n_done: int = 0) -> None:
    """Start the bar's task; the time left follows from steps after ``n_done``."""
    (task,) = progress.task_ids
    progress.reset(task, completed=n_done)
    progress.tasks[0].fields["begun"] = n_done
    progress.advance(task, 0)


@contextmanager
def line_printer(task: Task, unit: str, counted: str, active: bool) -> Iterator[None]:
    """Print the progress of a task at times while the block runs, if ``active``."""
    if not active:
        yield
        return
    done = threading.Event()

    def print_lines() -> None:
        wait_s = FIRST_LINE_S
        while not done.wait(wait_s):
            print(describe_task(task, unit, counted), file=sys.stderr, flush=True)
            wait_s = NEXT_LINE_S

    printer = threading.Thread(target=print_lines, daemon=True)
    printer.start()
    try:
        yield
    finally:
        done.set()
        printer.join()


def describe_task(task: Task, unit: str, counted: str) -> str:
    """Return a line as ``"profiling: 3 of 40 measurements, 0:00:12"``."""
    steps = "" if task.total is None else f"{int(task.completed)} of {task.total:.0f} {unit}, "
    count = f"{task.fields['count']} {counted}, " if counted else ""
    elapsed = timedelta(seconds=round(task.elapsed or 0.0))
    left_s = estimate_left(task)
    remaining = f", about {timedelta(seconds=round(left_s))} left" if left_s else ""
    doing = make_printable(task.fields["waiting"] or task.description)
    return f"{doing}: {steps}{count}{elapsed}{remaining}"
