"""Files of result rows, one JSON object per run; a killed process loses one row at most."""

from __future__ import annotations

import json
import lzma
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from placement_gym.base import (
    FileError,
    UserError,
    explain_write_errors,
    is_file,
    read_bytes,
    warn_user,
    write_bytes,
)
from placement_gym.base.schemas import check, parse_json
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.row_schema import StudyRow
from placement_gym.bench.run.task import Task

Json = dict[str, Any]
AnyRow = TypeVar("AnyRow", bound=Mapping[str, Any])
ROWS = "results.jsonl"
PACKED_ROWS = "results.jsonl.xz"
"""Published rows, compressed; they are only read."""
FILES = (PACKED_ROWS, ROWS)
LOCK = ".lock"
MAX_FILE_BYTES, MAX_UNPACKED_BYTES = 2**34, 2**28
"""Largest results file, and largest compressed one once unpacked. Hand-tuned."""
MAX_DECODER_BYTES = 2**27
"""Memory of the decoder: xz's strongest preset, -9, needs 65 MB."""
DECODERS: dict[str, Callable[[], Any]] = {
    ".xz": partial(lzma.LZMADecompressor, memlimit=MAX_DECODER_BYTES),
    ".gz": partial(zlib.decompressobj, wbits=16 + zlib.MAX_WBITS),
}


def append_row(path: Path, row: Json) -> None:
    """Add a row to a results file; ``FileError`` if it cannot be written or read again."""
    line = json.dumps(row).encode()
    try:
        parse_row(line)
    except UserError as error:
        raise FileError(f"{str(path)!r} would not be read again: {error}") from error
    append_line(path, line)


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file, after cutting off a last line that a kill has torn."""
    cut_torn_line(path)
    with explain_write_errors(path), path.open("ab") as file:
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())  # or a power cut would lose the run


def cut_torn_line(path: Path) -> None:
    """Cut off a last line that a kill has torn; make the file if there is none."""
    with explain_write_errors(path), path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        if file.read() not in (b"", b"\n"):
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def load_runs(path: Path) -> list[Json]:
    """Read the rows of a folder or file; damaged lines are left out with a warning."""
    rows, damaged = read_runs(path)
    if damaged:
        summary = f"{len(damaged)} damaged line{'s' * (len(damaged) > 1)}, left out"
        warn_user(
            f"{path} has {summary} ({'; '.join(damaged[:3])}): delete them, and run the same study "
            "again"
        )
    return rows


def read_runs(path: Path) -> tuple[list[Json], list[str]]:
    """Read the rows of a folder or file, and a sentence for each damaged line.

    Failed runs that were repeated are left out, and so is a torn last line. Published rows,
    ``results.jsonl.xz``, come first. Raises a ``UserError`` if a file cannot be read or unpacked.
    """
    rows, damaged = list[Json](), list[str]()
    for file in list_files(path):
        for number, line in enumerate(BytesIO(unpack(file)), start=1):
            # A torn last line has no line break, even if its JSON is complete by chance.
            if not line.endswith(b"\n") or not line.strip():
                continue
            try:
                rows.append(parse_row(line))
            except UserError as error:
                damaged.append(f"{file.name}, line {number}: {error}")
    latest_of_key = {row["key"]: row for row in rows}
    return [row for row in rows if not row["error"] or row is latest_of_key[row["key"]]], damaged


def list_files(path: Path) -> list[Path]:
    """List the files of rows of a folder, or the file itself."""
    return [path] if is_file(path) else [path / name for name in FILES if is_file(path / name)]


def parse_row(line: bytes) -> Json:
    """Parse a row; fields that earlier versions lack have defaults."""
    row = check(StudyRow, parse_json(line)).model_dump()
    # Key, problem and label identify rows: they are computed, not read.
    task, label = Task.from_row(row), AgentSpec(row["agent"], row["kwargs"]).label
    return row | {"key": task.key, "problem": task.problem, "label": label}


def unpack(path: Path) -> bytes:
    """Read a results file, decompressed if its name ends in ``.xz`` or ``.gz``."""
    content = read_bytes(path, MAX_FILE_BYTES)
    if path.suffix not in DECODERS:
        return content
    # Published rows come from anyone, and a small file can be a bomb.
    decoder = DECODERS[path.suffix]()
    try:
        unpacked: bytes = decoder.decompress(content, MAX_UNPACKED_BYTES + 1)
    except (lzma.LZMAError, zlib.error) as error:
        raise UserError(
            f"{path} is damaged, or not compressed as its name says: {error}"
        ) from error
    if len(unpacked) > MAX_UNPACKED_BYTES:
        raise FileError(f"{path} has more than {MAX_UNPACKED_BYTES} bytes once unpacked")
    if not decoder.eof or decoder.unused_data:
        raise UserError(f"{path} is damaged: it is not one whole stream")
    return unpacked


def group_by(field: str, rows: Iterable[AnyRow]) -> dict[str, list[AnyRow]]:
    """Group rows by a field, such as ``"problem"``; groups and rows stay in order."""
    groups: dict[str, list[AnyRow]] = {}
    for row in rows:
        groups.setdefault(row[field], []).append(row)
    return groups


def remove_rows(folder: Path, keys: Collection[str]) -> None:
    """Remove the rows of some runs; other lines stay."""

    def is_removed(line: bytes) -> bool:
        with suppress(UserError):
            return parse_row(line)["key"] in keys
        return False

    path = folder / ROWS
    if keys and is_file(path):
        lines = read_bytes(path, MAX_FILE_BYTES).splitlines(keepends=True)
        write_bytes(path, b"".join(line for line in lines if not is_removed(line)))


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder for writing; ``UserError`` if another process has, or if a file is a link."""
    for path in (folder / LOCK, folder / ROWS):
        if path.is_symlink():
            raise UserError(
                f"{path} is a link, whose target would be changed: replace it by a file"
            )
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"another process is writing into {folder}: wait for it, or choose another folder, as "
            "with --out"
        ) from None
    try:
        yield
    finally:
        lock.release()
