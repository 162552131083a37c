"""Files of result rows, one JSON object per run, which survive a kill."""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from placement_gym.base.errors import UserError, warn_user
from placement_gym.base.files import (
    FileError,
    explain_write_errors,
    is_file,
    read_bytes,
    write_bytes,
)
from placement_gym.base.schemas.reading import check, parse_json
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.row_schema import StudyRow
from placement_gym.bench.run.run_key import compute_key, describe_problem, read_run

Json = dict[str, Any]
AnyRow = TypeVar("AnyRow", bound=Mapping[str, Any])
ROWS = "results.jsonl"
PACKED_ROWS = "results.jsonl.xz"
"""Published rows, compressed; they are only read."""
FILES = (PACKED_ROWS, ROWS)
LOCK = ".lock"
MAX_FILE_BYTES = 2**34
MAX_UNPACKED_BYTES = 2**28
"""Of a compressed file, of which some bytes may hold gigabytes."""
MAX_DECODER_BYTES = 2**27
"""Memory that the decoder may take; the strongest presets need half of it."""
ROUNDING = 1e-9
"""Relative difference of two simulated latencies of one placement."""


def append_row(path: Path, row: Json) -> None:
    """Add a row to a results file; a last line that a kill has torn is cut off first.

    Raises:
        FileError: It cannot be written, or could not be read again; the lines before are kept.
    """
    line = json.dumps(row).encode()
    try:
        parse_row(line)
    except UserError as error:
        raise FileError(f"{str(path)!r} would not be read again: {error}") from error
    append_line(path, line)


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file; a last line that a kill has torn is cut off first.

    Raises:
        FileError: It cannot be written; the lines before are kept.
    """
    cut_torn_line(path)
    with explain_write_errors(path), path.open("ab") as file:
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def cut_torn_line(path: Path) -> None:
    """Cut off a last line that a kill has torn; make the file if there is none.

    Raises:
        FileError: The file cannot be written.
    """
    with explain_write_errors(path), path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        if file.read() not in (b"", b"\n"):
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def load_rows(path: Path) -> list[Json]:
    """Read the rows of a results file, compressed or not; a torn last line does not count.

    Damaged lines are left out, with a warning that has their numbers.

    Raises:
        UserError: The file cannot be read, or a compressed one is damaged.
    """
    rows, damaged = read_rows(path)
    if damaged:
        lines_out = f"{len(damaged)} damaged line{'s' * (len(damaged) > 1)}, left out"
        warn_user(
            f"{path} has {lines_out} ({'; '.join(damaged[:3])}): run the same study again "
            "to replace them"
        )
    return rows


def read_rows(path: Path) -> tuple[list[Json], list[str]]:
    """The rows of a results file, and a sentence for each damaged line; see ``load_rows``."""
    rows, damaged = [], []
    for number, line in enumerate(BytesIO(unpack(path) if is_file(path) else b""), start=1):
        if not line.endswith(b"\n") or not line.strip():
            continue
        try:
            rows.append(parse_row(line))
        except UserError as error:
            damaged.append(f"line {number}: {error}")
    return rows, damaged


def parse_row(line: bytes) -> Json:
    """A row from one line; fields that earlier versions did not write have their defaults.

    Its key, its problem and its label are computed from what was run, whatever the line says: rows
    are told apart by them.

    Raises:
        UserError: It is not valid JSON, or a field is missing or wrong.
    """
    values = parse_json(line)
    row = check(StudyRow, values).model_dump()
    run = read_run(row)
    return row | {
        "key": compute_key(run),
        "problem": describe_problem(run),
        "label": AgentSpec(row["agent"], row["kwargs"]).label,
    }


def unpack(path: Path) -> bytes:
    """Read a results file, decompressed if its name ends in ``.xz``.

    Raises:
        FileError: The file cannot be read, or holds more than a study's rows.
        UserError: A compressed file is damaged.
    """
    content = read_bytes(path, MAX_FILE_BYTES)
    if path.suffix != ".xz":
        return content
    try:
        decoder = lzma.LZMADecompressor(memlimit=MAX_DECODER_BYTES)
        unpacked = decoder.decompress(content, MAX_UNPACKED_BYTES + 1)
    except lzma.LZMAError as error:
        raise UserError(f"{path} is damaged or not compressed by xz: {error}") from error
    if len(unpacked) > MAX_UNPACKED_BYTES:
        raise FileError(f"{path} holds more than {MAX_UNPACKED_BYTES} bytes once it is unpacked")
    if not decoder.eof or decoder.unused_data:
        raise UserError(f"{path} is damaged or not compressed by xz: it is not one whole stream")
    return unpacked


def load_runs(folder: Path) -> list[Json]:
    """Read the rows of a folder's runs, without failed runs that were done again.

    Published rows, ``results.jsonl.xz``, come before those that were added since.
    """
    return leave_out_retried([row for name in FILES for row in load_rows(folder / name)])


def read_runs(folder: Path) -> tuple[list[Json], list[str]]:
    """The rows of a folder's runs, and a sentence for each damaged line; see ``load_runs``."""
    read = {name: read_rows(folder / name) for name in FILES}
    rows = [row for found, _ in read.values() for row in found]
    damaged = [f"{name}, {line}" for name, (_, lines) in read.items() for line in lines]
    return leave_out_retried(rows), damaged


def leave_out_retried(rows: Sequence[Json]) -> list[Json]:
    """Rows without failed runs that were done again."""
    latest = {row["key"]: row for row in rows}
    return [row for row in rows if not row["error"] or row is latest[row["key"]]]


def group_by(field: str, rows: Iterable[AnyRow]) -> dict[str, list[AnyRow]]:
    """The rows of each value of a field, as of ``"problem"`` or ``"label"``, in their order."""
    groups: dict[str, list[AnyRow]] = {}
    for row in rows:
        groups.setdefault(row[field], []).append(row)
    return groups


def remove_rows(folder: Path, keys: Collection[str]) -> None:
    """Remove the rows of some runs; the file is replaced as a whole, other lines stay."""
    path = folder / ROWS
    if keys and is_file(path):
        lines = read_bytes(path, MAX_FILE_BYTES).splitlines(keepends=True)
        write_bytes(path, b"".join(line for line in lines if _key_of(line) not in keys))


def _key_of(line: bytes) -> str | None:
    try:
        return str(parse_row(line)["key"])
    except UserError:
        return None


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep every other process from writing into the folder.

    Raises:
        UserError: Another process is writing into it, or a link in it leads elsewhere.
    """
    for path in (folder / LOCK, folder / ROWS):
        if path.is_symlink():
            raise UserError(
                f"{path} is a link, and what it leads to would be changed: replace it by a file"
            )
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"another process is writing into {folder}: wait for it, or choose another folder"
        ) from None
    try:
        yield
    finally:
        lock.release()
