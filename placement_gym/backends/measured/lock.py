"""The lock by which only one process measures at a time."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import IO

from filelock import FileLock, Timeout

from placement_gym.backends.measured.engine import Reporter, describe_command
from placement_gym.base import EngineError

PATH_VARIABLE = "PLACEMENT_GYM_LOCK"
"""Environment variable with the path of the lock; processes that share it take turns."""
SHARED = Path("/tmp")
DEFAULT_PATH = (
    SHARED if SHARED.is_dir() else Path(tempfile.gettempdir())
) / "placement_gym.measure.lock"
"""The same for every process of the machine, whatever its TMPDIR is."""
SILENT_S = 1.0
"""Seconds of waiting before a message. Hand-tuned: most measurements of a step are shorter."""
MAX_HOLD_S = 1800.0
"""Seconds that one process may hold the lock before others give up. Hand-tuned."""
MAX_COMMAND = 120
"""Characters of a command in a message."""
MAX_NOTE_BYTES = 4096
"""Bytes of a note that are read: in the shared folder others may write more."""


def lock_path() -> Path:
    """The file that processes lock: ``PLACEMENT_GYM_LOCK``, or ``DEFAULT_PATH``."""
    return Path(os.environ.get(PATH_VARIABLE) or DEFAULT_PATH)


def note_path() -> Path:
    """The file with the process number and the command of the lock's holder."""
    return Path(f"{lock_path()}.holder")


@contextmanager
def measurement_lock(reporter: Reporter | None = None) -> Iterator[None]:
    """Hold the lock while compiling and timing; a thread may take it again while it holds it.

    The system releases it when its holder dies. After a second of waiting the holder is printed.

    Raises:
        EngineError: One process held it for ``MAX_HOLD_S``, or the file cannot be opened.
    """
    lock = FileLock(lock_path(), mode=0o666, is_singleton=True)
    nested = lock.is_locked
    wait_for(lock, reporter or Reporter())
    try:
        if not nested:
            write_note(f"{os.getpid()} {describe_command(sys.argv)}")
        yield
    finally:
        if not nested:
            write_note("")
        lock.release()


def wait_for(lock: FileLock, reporter: Reporter) -> None:
    """Acquire the lock; see ``measurement_lock``."""
    start_s = turn_start_s = monotonic()
    turn, announced = "", False
    while not acquire_soon(lock, reporter):
        if not announced:
            reporter.print_message(f"waiting for {describe_holder()} to finish measuring")
            announced = True
        reporter.on_wait(f"waiting {monotonic() - start_s:.0f} s for {describe_holder()}")
        # The limit is for one holder, not for a queue.
        if turn != (turn := identify_turn()):
            turn_start_s = monotonic()
        if monotonic() - turn_start_s > MAX_HOLD_S:
            reporter.on_wait("")
            raise EngineError(
                f"{describe_holder()} has been measuring for {MAX_HOLD_S:.0f} s: end it, or set "
                f"{PATH_VARIABLE} to another path if it does not share this machine's cores"
            )
    if announced:
        waited_s = monotonic() - start_s
        reporter.on_wait("")
        reporter.print_message(f"measuring continues after {waited_s:.0f} s of waiting")


def acquire_soon(lock: FileLock, reporter: Reporter) -> bool:
    """Try to acquire the lock for ``SILENT_S``."""
    reporter.on_heartbeat("waiting for the lock")
    try:
        lock.acquire(timeout=SILENT_S)
    except Timeout:
        return False
    except OSError as error:
        raise EngineError(
            f"the lock of measurements {str(lock_path())!r} cannot be opened "
            f"({error.strerror}): set {PATH_VARIABLE} to a path where you may write"
        ) from error
    return True


def identify_turn() -> str:
    """A text that differs for each time that the lock is taken."""
    try:
        return f"{note_path().stat().st_mtime_ns}"
    except OSError:
        return ""


def write_note(text: str) -> None:
    """Write the note that waiting processes read, if possible."""
    with suppress(OSError), open_note(os.O_WRONLY | os.O_CREAT) as note:
        # Users share the lock, and each must be able to sign it.
        with suppress(PermissionError):
            os.fchmod(note.fileno(), 0o666)
        note.truncate()
        note.write(text.encode(errors="replace"))


def open_note(flags: int) -> IO[bytes]:
    """Open the note; others may have put a link, or something else, in the shared folder.

    Raises:
        OSError: It is not a regular file, or it has a second hard link.
    """
    descriptor = os.open(note_path(), flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(f"{note_path()} is not a note")
    return os.fdopen(descriptor, "wb" if flags & os.O_WRONLY else "rb", buffering=0)


def describe_holder() -> str:
    """The holder by its note, as in ``process 123 (placement-gym plan)``."""
    try:
        with open_note(os.O_RDONLY) as note:
            text = note.read(MAX_NOTE_BYTES).decode(errors="replace")
        number, _, command = text.partition(" ")
        process = int(number)
        if process < 1:  # a group of processes
            return "another process"
        with suppress(PermissionError):  # it is another user's
            os.kill(process, 0)
    except (OSError, ValueError, OverflowError):
        return "another process"
    printable = "".join(character for character in command if character.isprintable())[:MAX_COMMAND]
    return f"process {process} ({printable})"
