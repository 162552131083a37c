"""Only one process measures at a time."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

PATH_VARIABLE = "PLACEMENT_GYM_LOCK"
"""Environment variable with the path of the lock; processes that share it take turns."""
SHARED = Path("/tmp")
DEFAULT_PATH = (
    SHARED if SHARED.is_dir() else Path(tempfile.gettempdir())
) / "placement_gym.measure.lock"
"""The same for every process of the machine, whatever its TMPDIR."""
SILENT_S = 1.0
MAX_COMMAND = 120


def lock_path() -> Path:
    """The file that processes lock, ``DEFAULT_PATH`` unless ``PLACEMENT_GYM_LOCK`` is set."""
    return Path(os.environ.get(PATH_VARIABLE) or DEFAULT_PATH)


def note_path() -> Path:
    """The file in which the holder of the lock leaves its process number and command."""
    path = lock_path()
    return path.with_name(f"{path.name}.holder")


@contextmanager
def measurement_lock() -> Iterator[None]:
    """Hold the lock while compiling and timing; the system frees it when its holder dies.

    A thread may take it again while it holds it. A process that waits for more than a second names
    the holder on standard error.
    """
    lock = FileLock(lock_path(), mode=0o666, is_singleton=True)
    nested = lock.is_locked
    try:
        lock.acquire(timeout=SILENT_S)
    except Timeout:
        print(f"waiting for {describe_holder()} to finish measuring", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        if not nested:
            write_note(f"{os.getpid()} {' '.join([Path(sys.argv[0]).name, *sys.argv[1:]])}")
        yield
    finally:
        if not nested:
            write_note("")
        lock.release()


def write_note(text: str) -> None:
    """Write the note that waiting processes read, if the file system allows it."""
    with suppress(OSError):
        descriptor = os.open(note_path(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        with os.fdopen(descriptor, "w") as note:
            # Users share the lock, and each of them must be able to sign it.
            with suppress(PermissionError):
                os.fchmod(descriptor, 0o666)
            note.write(text)


def describe_holder() -> str:
    """``process 123 (placement-gym plan)``, or ``another process`` without a valid note."""
    try:
        process, _, command = note_path().read_text(errors="replace").partition(" ")
        alive = is_alive(int(process))
    except (OSError, ValueError):
        alive = False
    if not alive:
        return "another process"
    shown = "".join(character for character in command if character.isprintable())[:MAX_COMMAND]
    return f"process {process} ({shown})"


def is_alive(process: int) -> bool:
    """Whether a process of this number exists, whoever owns it."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return process > 0
