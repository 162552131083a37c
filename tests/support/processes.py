"""Processes: code that runs in a new one of Python, and those that run now."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def run_python(code: str, *options: str) -> str:
    """What the code prints; it must succeed."""
    command = [sys.executable, *options, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def find_processes(file: str, matches: Callable[[bytes], bool]) -> list[int]:
    """Processes whose file of this name in ``/proc`` matches."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += [int(folder.name)] if matches((folder / file).read_bytes()) else []
    return found
