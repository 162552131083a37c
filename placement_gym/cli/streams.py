"""Standard streams that their reader has closed, or whose disk is full."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO


class LossyStream:
    """A text stream that never fails: after a failed write, all output is discarded.

    Messages and progress affect neither the work nor the exit status of a command.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        try:
            return self.stream.write(text)
        except OSError:
            silence(self.stream)
            return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except OSError:
            silence(self.stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def silence(stream: TextIO) -> None:
    """Send a stream to the null device, or flushing it would fail again when Python ends."""
    with suppress(OSError):  # it has no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def replace_closed_streams() -> None:
    """Open the null device in place of standard streams that the caller has closed.

    Otherwise a file that the command opens would get a closed stream's number and its output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115
