"""Code that runs in a new process of Python."""

from __future__ import annotations

import subprocess
import sys


def run_python(code: str, *options: str) -> str:
    """What the code prints; it must succeed."""
    command = [sys.executable, *options, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
