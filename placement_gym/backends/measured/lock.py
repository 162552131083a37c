"""Only one process measures at a time."""

from __future__ import annotations

import tempfile
from pathlib import Path

from filelock import FileLock

SHARED = Path("/tmp")
FOLDER = SHARED if SHARED.is_dir() else Path(tempfile.gettempdir())
LOCK_PATH = FOLDER / "placement_gym.measure.lock"
"""The same for every process of the machine, whatever its TMPDIR."""


def measurement_lock() -> FileLock:
    """A lock held while compiling and timing; the system frees it when its holder dies.

    A thread may take it again while it holds it.
    """
    return FileLock(LOCK_PATH, mode=0o666, is_singleton=True)
