"""Result rows: one JSON object per run, in a file that survives a kill."""

from __future__ import annotations

import json
import lzma
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from placement_gym.base.errors import UserError, warn_user
from placement_gym.base.files import (
    FileError,
    explain_write_errors,
    read_bytes,
    write_bytes,
    write_text,
)
from placement_gym.bench.run.provenance import git_commit, host, versions

Json = dict[str, Any]
AnyRow = TypeVar("AnyRow", bound=Mapping[str, Any])
ROWS = "results.jsonl"
PACKED_ROWS = "results.jsonl.xz"
"""Published rows, compressed; they are only read."""
LOCK = ".lock"
DAMAGED = "results.damaged.txt"
"""Beside the results: lines that were no rows, each under its number and its fault."""
MAX_BYTES = 2**34


@dataclass(frozen=True)
class Row:
    """One run of one agent. Latencies in ms; unknown values are None.

    Attributes:
        agent: Name of the agent.
        label: Name and options, as tables print them.
        kwargs: Options that the agent was made with.
        env: Id of the environment.
        env_kwargs: Arguments that the environment was made with.
        model: Name of the model.
        model_fingerprint: Fingerprint of its operator graph.
        costs_fingerprint: Fingerprint of the cost table; None where latencies are measured.
        devices: Devices with their settings.
        seed: Seed of the run.
        budget: Evaluations allowed.
        evaluations: Evaluations used.
        stopped: Whether the search ended by itself before it had used its budget.
        infeasible: Those of them whose placement did not fit or run, after any repair; None in
            rows of earlier versions.
        repaired: Those of them whose placement did not fit as proposed and was repaired first.
        latency_ms: Median of the finalist, measured again.
        latency_p90_ms: 90th percentile of the same.
        greedy_latency_ms: Median of ``predict(deterministic=True)`` after learning.
        greedy_speedup: Its speed-up over the reference device, measured with it.
        speedup: Over the reference device.
        speedup_vs_best_single: Over the fastest feasible single device.
        noise: Half-width of the uncertainty of ``speedup_vs_best_single``, as a fraction.
        n_submodels: Submodels that the engine made.
        n_submodels_expected: Submodels that the placement needs.
        wall_s: Seconds of search.
        beats_best_single: ``"yes"``, ``"no"`` or ``"within noise"``.
        curve: (evaluations, seconds, best speed-up) at each improvement.
        doubt: Why the finalist's measurement decides nothing, or an empty string.
        placement: Unit -> device of the finalist; of a run that failed, of the best evaluation.
        start: Name of the start of the search, as of a heuristic, that the finalist is equal to;
            empty if it is none.
        error: Why there is no latency, or an empty string.
    """

    agent: str
    label: str
    kwargs: Mapping[str, Any]
    env: str
    env_kwargs: Mapping[str, Any]
    model: str
    model_fingerprint: str
    devices: list[dict[str, Any]]
    seed: int
    budget: int
    evaluations: int = 0
    stopped: bool = False
    infeasible: int | None = None
    repaired: int | None = None
    costs_fingerprint: str | None = None
    latency_ms: float | None = None
    latency_p90_ms: float | None = None
    greedy_latency_ms: float | None = None
    greedy_speedup: float | None = None
    speedup: float | None = None
    speedup_vs_best_single: float | None = None
    noise: float | None = None
    n_submodels: int | None = None
    n_submodels_expected: int | None = None
    wall_s: float = 0.0
    beats_best_single: str | None = None
    curve: list[tuple[int, float, float]] = field(default_factory=list)
    doubt: str = ""
    placement: Mapping[str, str] | None = None
    start: str = ""
    error: str = ""
    versions: Mapping[str, str] = field(default_factory=versions)
    host: str = field(default_factory=host)
    git: str | None = field(default_factory=git_commit)
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat("T", "seconds"))

    def to_json(self) -> dict[str, Any]:
        """The row as ``to_plain`` converts it."""
        values: dict[str, Any] = to_plain(asdict(self))
        return values


def to_plain(value: Any) -> Any:
    """Convert a value to what JSON can hold.

    Tuples become lists, NaN and infinite numbers None, and bytes of a path that are no UTF-8
    escapes.
    """
    if isinstance(value, Mapping):
        return {to_plain(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


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

    Damaged lines are left out, with a warning that has their numbers; ``set_damaged_lines_aside``
    moves them.

    Raises:
        UserError: The file cannot be read, or a compressed one is damaged.
    """
    rows, damaged = read_lines(path)
    if damaged:
        shown = "; ".join(f"line {number}: {reason}" for number, _, reason in damaged[:3])
        lines = f"{len(damaged)} damaged line{'s' * (len(damaged) > 1)}"
        warn_user(
            f"{path} has {lines}, left out ({shown}): the same study runs again what they held, "
            f"and keeps them in {DAMAGED}"
        )
    return rows


def read_lines(path: Path) -> tuple[list[Json], list[tuple[int, bytes, str]]]:
    """The rows of a results file; and number, content and fault of each damaged line."""
    if not path.is_file():
        return [], []
    rows, damaged = [], []
    lines = unpack(path).split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        if not line.strip():
            continue
        try:
            rows.append(parse_row(line))
        except UserError as error:
            damaged.append((number, line, str(error)))
    return rows, damaged


def parse_row(line: bytes) -> Json:
    """A row from one line.

    Raises:
        UserError: It is not valid JSON, or a field is missing or wrong.
    """
    from placement_gym.base.schemas.reading import check, parse_json
    from placement_gym.base.schemas.results import RowFields

    row = parse_json(line)
    check(RowFields, row)
    try:
        json.dumps(row, allow_nan=False)
    except ValueError as error:  # 1e400 is infinite
        raise UserError(f"a number is not finite: {error}") from error
    return dict(row)


def set_damaged_lines_aside(path: Path) -> None:
    """Move damaged lines, with their numbers, into ``DAMAGED`` next to the file.

    Raises:
        FileError: A file cannot be written; the lines are still where they were then.
    """
    rows, damaged = read_lines(path)
    if not damaged:
        return
    aside = path.with_name(DAMAGED)
    before = read_bytes(aside, MAX_BYTES) if aside.is_file() else b""
    entries = [
        f"# line {number}: {reason}\n".encode() + line + b"\n" for number, line, reason in damaged
    ]
    write_bytes(aside, before + b"".join(entries))
    write_rows(path, rows)


def write_rows(path: Path, rows: Iterable[Json]) -> None:
    """Replace a results file as a whole."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def unpack(path: Path) -> bytes:
    """Read a results file, decompressed if its name ends in ``.xz``.

    Raises:
        FileError: The file cannot be read.
        UserError: A compressed file is damaged.
    """
    content = read_bytes(path, MAX_BYTES)
    if path.suffix != ".xz":
        return content
    try:
        return lzma.decompress(content)
    except lzma.LZMAError as error:
        raise UserError(f"{path} is damaged or not compressed by xz: {error}") from error


def load_runs(folder: Path) -> list[Json]:
    """Read the rows of a folder's runs, without failed runs that were done again.

    Published rows, ``results.jsonl.xz``, come before those that were added since.
    """
    files = (folder / PACKED_ROWS, folder / ROWS)
    rows = [row for file in files for row in load_rows(file)]
    latest = {row["key"]: row for row in rows}
    return [row for row in rows if not row["error"] or row is latest[row["key"]]]


def group_by(field: str, rows: Iterable[AnyRow]) -> dict[str, list[AnyRow]]:
    """The rows of each value of a field, as of ``"problem"`` or ``"label"``, in their order."""
    groups: dict[str, list[AnyRow]] = {}
    for row in rows:
        groups.setdefault(row[field], []).append(row)
    return groups


def remove_rows(folder: Path, keys: Collection[str]) -> None:
    """Remove the rows of some runs; the file is replaced as a whole."""
    if keys:
        set_damaged_lines_aside(folder / ROWS)
        kept = [row for row in load_rows(folder / ROWS) if row["key"] not in keys]
        write_rows(folder / ROWS, kept)


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
