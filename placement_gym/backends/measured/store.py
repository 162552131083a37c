"""A file of measurements, SQLite, that any number of processes share."""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from placement_gym.backends.failures import EngineFailureError, check_values
from placement_gym.backends.measured.lock import identify
from placement_gym.backends.protocol import Measurement
from placement_gym.errors import warn_user
from placement_gym.files import compute_checksum, replace_file, set_aside

T = TypeVar("T")

APPLICATION = 0x504C4359
"""Marks our files among those of SQLite."""
BUSY_S = 10.0
"""Seconds to wait for other processes."""
MAX_ROW_BYTES = 1_000_000
DAMAGED = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_TOOBIG,
}
"""Errors of SQLite that lie in the file; others are those of the disk, or of who else uses it."""
CREATE = (
    f"PRAGMA application_id = {APPLICATION}",
    "CREATE TABLE measurements (conditions TEXT, placement TEXT, measurement TEXT NOT NULL, "
    "PRIMARY KEY (conditions, placement)) WITHOUT ROWID",
    "PRAGMA journal_mode = WAL",
)
SELECT = "SELECT measurement FROM measurements WHERE conditions = ? AND placement = ?"
INSERT = "INSERT OR IGNORE INTO measurements VALUES (?, ?, ?)"


class DamagedError(Exception):
    """The file holds something else than measurements that were written whole.

    Attributes:
        identity: Device and inode of the file.
    """

    identity: tuple[int, int] | None = None


class MeasurementStore:
    """Measurements under some conditions.

    No failure of the file reaches the caller. A damaged or foreign file is renamed and begun anew;
    where the disk is full or the folder read-only, nothing is kept from then on. A warning tells
    of either.

    The file is open during a request only: there is nothing to close, and a fork shares nothing.
    Meanwhile a lock beside it keeps other processes from renaming it.

    Args:
        path: Of the file; made with its folder when it is first needed.
        conditions: Digest of what the measurements depend on beside the placement.
    """

    def __init__(self, path: Path, conditions: str) -> None:
        self.path = path
        self.conditions = conditions
        self.usable = True

    def load(self, placement: str) -> Measurement | None:
        """The measurement of a placement, by its digest; None if none is kept."""

        def find(file: sqlite3.Connection) -> Measurement | None:
            row = file.execute(SELECT, (self.conditions, placement)).fetchone()
            return None if row is None else self.decode(placement, row[0])

        return self.attempt(find)

    def save(self, placement: str, measurement: Measurement) -> None:
        """Keep the measurement of a placement, unless there is one already."""
        row = (self.conditions, placement, self.encode(placement, measurement))
        self.attempt(lambda file: file.execute(INSERT, row))

    def encode(self, placement: str, measurement: Measurement) -> str:
        """A measurement as JSON, with a checksum of it and of what it belongs to."""
        values = measurement.to_json()
        return json.dumps(values | {"checksum": self.compute_checksum(placement, values)})

    def decode(self, placement: str, text: Any) -> Measurement:
        """The inverse of ``encode``.

        Raises:
            DamagedError: It is not what was written.
        """
        try:
            values = json.loads(text)
            if values.pop("checksum") != self.compute_checksum(placement, values):
                raise DamagedError("a measurement is not what was written")
            return check_values(Measurement.from_json(values))
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise DamagedError(f"a measurement cannot be read: {error}") from error
        except EngineFailureError as error:
            raise DamagedError(str(error)) from error

    def compute_checksum(self, placement: str, values: dict[str, Any]) -> str:
        """Sixteen hex digits of a measurement and what it belongs to."""
        return compute_checksum(values | {"of": [self.conditions, placement]})

    def attempt(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        """Do something with the file, or with a new one if it is damaged; None if that fails."""
        if not self.usable:
            return None
        try:
            for _ in range(2):
                try:
                    with self.open() as file:
                        return action(file)
                except DamagedError as damaged:
                    self.begin_anew(damaged)
        except (OSError, sqlite3.Error) as error:
            self.usable = False
            warn_user(f"measurements are not kept from now on: {str(self.path)!r}: {error}")
        return None

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """The file, made if there is none; what was written is kept when the block ends.

        Raises:
            DamagedError: It is damaged, or not ours.
            OSError: It cannot be made, or is locked.
            sqlite3.Error: It cannot be read or written.
        """
        if not self.path.exists():
            self.create()
        with self.lock(fcntl.LOCK_SH):
            identity = identify(self.path)
            try:
                with closing(self.connect()) as file, file:
                    yield file
            except (DamagedError, sqlite3.Error) as error:
                if not is_damage(error):
                    raise
                damaged = DamagedError(str(error))
                damaged.identity = identity
                raise damaged from error

    def connect(self) -> sqlite3.Connection:
        """Open the file, which has to exist.

        Raises:
            DamagedError: It is that of another program.
            sqlite3.Error: It cannot be read.
        """
        file = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", BUSY_S, uri=True)
        try:
            file.text_factory = bytes  # what is damaged need not be text
            file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES)
            file.execute("PRAGMA synchronous = NORMAL")
            if file.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
                raise DamagedError("it is a file of another program")
        except BaseException:
            file.close()
            raise
        return file

    def create(self) -> None:
        """Make the file, unless another process has made it.

        Raises:
            OSError: It cannot be written.
            sqlite3.Error: So.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.lock(fcntl.LOCK_EX):
            if self.path.exists():
                return
            with replace_file(self.path) as new, closing(sqlite3.connect(new)) as file:
                for statement in CREATE:
                    file.execute(statement)

    def begin_anew(self, damaged: DamagedError) -> None:
        """Rename a damaged file, unless another process has done so.

        Raises:
            OSError: It cannot be renamed.
        """
        with self.lock(fcntl.LOCK_EX):
            if identify(self.path) != damaged.identity:
                return
            aside = set_aside(self.path)
            for rest in (Path(f"{self.path}-wal"), Path(f"{self.path}-shm")):
                if rest.exists():
                    set_aside(rest)
        if aside is None:
            raise OSError(f"{damaged}, and it cannot be renamed")
        warn_user(
            f"{damaged} in {str(self.path)!r}: it is now {aside.name!r}, and a new one is begun"
        )

    @contextmanager
    def lock(self, kind: int) -> Iterator[None]:
        """Hold the lock beside the file.

        Args:
            kind: ``fcntl.LOCK_SH`` to use the file, ``fcntl.LOCK_EX`` to make or rename it.

        Raises:
            OSError: It cannot be made, or others did not free it in ``BUSY_S``.
        """
        with Path(f"{self.path}.lock").open("a") as lock:
            end = monotonic() + BUSY_S
            while True:
                try:
                    fcntl.flock(lock, kind | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if monotonic() > end:
                        raise
                    sleep(0.01)
            yield


def is_damage(error: Exception) -> bool:
    """Whether an error lies in the contents of a file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, DamagedError) or code in DAMAGED
