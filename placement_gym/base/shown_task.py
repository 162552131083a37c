"""The progress bar of a thread, for code deep below the one that shows it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Task

SHOWN: ContextVar[Task | None] = ContextVar("SHOWN", default=None)
"""Task of this thread's progress bar, if it has one."""


def show_waiting(text: str) -> None:
    """Show the reason of a wait on this thread's bar; an empty text removes it."""
    task = SHOWN.get()
    if task is not None:
        task.fields["waiting"] = text


def is_bar_shown() -> bool:
    """Return whether this thread has a bar, also a quiet one."""
    return SHOWN.get() is not None


def show_step(text: str) -> None:
    """Show the current step on this thread's bar."""
    task = SHOWN.get()
    if task is not None:
        task.description = text
