"""The task whose progress is shown, for code that waits or computes far below what shows it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Task

SHOWN: ContextVar[Task | None] = ContextVar("SHOWN", default=None)
"""The task of the bar of this thread."""


def show_waiting(text: str) -> None:
    """Show the reason of a wait on the bar of this thread, if any; an empty text removes it."""
    task = SHOWN.get()
    if task is not None:
        task.fields["waiting"] = text


def is_bar_shown() -> bool:
    """Return whether this thread has a bar, be it a quiet one."""
    return SHOWN.get() is not None


def show_step(text: str) -> None:
    """Show the present step on the bar of this thread, if any."""
    task = SHOWN.get()
    if task is not None:
        task.description = text
