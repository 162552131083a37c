"""Standard streams that cannot be written: closed by their reader, or on a full disk."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO


class LossyStream:
    """A text stream for messages and progress, discarded after a failed write."""

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
    """Send a stream to the null device: flushing it would fail again when Python ends."""
    with suppress(OSError):  # it has no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def replace_closed_streams() -> None:
    """Open the null device in place of closed streams, or files would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115
