"""Result rows: one JSON object per run, in a file that survives a kill."""

from __future__ import annotations

import json
import lzma
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from filelock import FileLock, Timeout
from pydantic import AfterValidator, Field, FiniteFloat, model_validator

from placement_gym.base.errors import UserError, warn_user
from placement_gym.base.files import (
    FileError,
    explain_write_errors,
    read_bytes,
    write_bytes,
)
from placement_gym.base.schemas.reading import (
    MAX_BYTES,
    Fields,
    Name,
    check,
    check_plain,
    parse_json,
)
from placement_gym.bench.run.provenance import git_commit, host, versions

Json = dict[str, Any]
AnyRow = TypeVar("AnyRow", bound=Mapping[str, Any])
ROWS = "results.jsonl"
PACKED_ROWS = "results.jsonl.xz"
"""Published rows, compressed; they are only read."""
LOCK = ".lock"
MAX_FILE_BYTES = 2**34
ROUNDING = 1e-9
"""Relative difference of two simulated latencies of one placement."""


def check_problem(text: str) -> str:
    """Return the text of a problem: environment, its arguments, model and devices as JSON.

    Raises:
        ValueError: It has another form; for schemas.
    """
    try:
        parts = parse_json(text)
    except UserError as error:
        raise ValueError(str(error)) from error
    if not isinstance(parts, list) or len(parts) != 4:
        raise ValueError("it must be a list of environment, arguments, model and devices")
    env, env_kwargs, model, _ = parts
    if not (isinstance(env, str) and isinstance(env_kwargs, dict) and isinstance(model, str)):
        raise ValueError("environment and model must be text, arguments an object")
    return text


Count = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Positive = Annotated[FiniteFloat, Field(gt=0.0)] | None
Plain = Annotated[dict[str, Any], AfterValidator(check_plain)]


class Row(Fields):
    """One run of one agent. Latencies in ms; unknown values are None.

    Attributes:
        agent: Name of the agent.
        label: Name and options, as tables print them.
        kwargs: Options that the agent was made with.
        env: Id of the environment.
        env_kwargs: Arguments that the environment was made with.
        model: Name of the model.
        model_fingerprint: Fingerprint of its operator graph.
        devices: Devices with their settings.
        seed: Seed of the run.
        budget: Evaluations allowed.
        evaluations: Evaluations used.
        stopped: Whether the search ended by itself before it had used its budget.
        infeasible: Those of them whose placement did not fit or run, after any repair.
        repaired: Those of them whose placement did not fit as proposed and was repaired first.
        costs_fingerprint: Fingerprint of the cost table; None where latencies are measured.
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
        versions: Of Python and the packages that results depend on.
        host: The machine.
        git: Commit of this package's source tree.
        time: When the run began.
    """

    agent: Name
    label: Name
    kwargs: Plain
    env: Name
    env_kwargs: Plain
    model: Name
    model_fingerprint: Name
    devices: list[Plain]
    seed: int
    budget: Count
    evaluations: Count = 0
    stopped: bool = False
    infeasible: Count | None = None
    repaired: Count | None = None
    costs_fingerprint: Name | None = None
    latency_ms: Positive = None
    latency_p90_ms: Positive = None
    greedy_latency_ms: Positive = None
    greedy_speedup: Positive = None
    speedup: Positive = None
    speedup_vs_best_single: Positive = None
    noise: Annotated[FiniteFloat, Field(ge=0.0)] | None = None
    n_submodels: int | None = None
    n_submodels_expected: int | None = None
    wall_s: FiniteFloat = 0.0
    beats_best_single: Name | None = None
    curve: list[Annotated[list[FiniteFloat], Field(min_length=3)]] = Field(default_factory=list)
    doubt: str = ""
    placement: dict[str, str] | None = None
    start: str = ""
    error: str = ""
    versions: dict[str, str]
    host: str
    git: str | None
    time: str

    @classmethod
    def begin(cls, **values: Any) -> Row:
        """The row of a run that begins now on this machine."""
        time = datetime.now(UTC).isoformat("T", "seconds")
        origin: Json = {"versions": versions(), "host": host(), "git": git_commit(), "time": time}
        return cls(**to_plain(values), **origin)

    def change(self, **values: Any) -> Row:
        """The row with other values."""
        return self.model_copy(update=values)

    def to_json(self) -> Json:
        """The row as ``to_plain`` converts it."""
        values: Json = to_plain(dict(self))
        return values


class StudyRow(Row):
    """A row of a study or of a comparison, as a results file holds it.

    Attributes:
        key: Of its task.
        problem: Environment, its arguments, model and devices as JSON.
        score_on: See ``Task``.
        scored_ms: The finalist's latency there.
        scored_speedup: Its speed-up over the best single device there.
    """

    key: Name
    problem: Annotated[Name, AfterValidator(check_problem)]
    score_on: Plain
    scored_ms: Positive
    scored_speedup: Positive

    @model_validator(mode="after")
    def check_measured(self) -> StudyRow:
        """Refuse a latency without what was measured, and over what it is a speed-up."""
        needed = ("placement", "speedup", "speedup_vs_best_single", "noise", "beats_best_single")
        absent = [name for name in needed if getattr(self, name) is None]
        if self.latency_ms is not None and absent:
            raise ValueError(f"it has a latency, but no {absent[0]}")
        return self


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

    Damaged lines are left out, with a warning that has their numbers.

    Raises:
        UserError: The file cannot be read, or a compressed one is damaged.
    """
    rows, damaged = [], []
    lines = unpack(path).split(b"\n") if path.is_file() else [b""]
    for number, line in enumerate(lines[:-1], start=1):
        try:
            rows += [parse_row(line)] if line.strip() else []
        except UserError as error:
            damaged.append(f"line {number}: {error}")
    if damaged:
        lines_out = f"{len(damaged)} damaged line{'s' * (len(damaged) > 1)}, left out"
        warn_user(
            f"{path} has {lines_out} ({'; '.join(damaged[:3])}): the same study runs again what "
            "they held"
        )
    return rows


def parse_row(line: bytes) -> Json:
    """A row from one line; fields that earlier versions did not write have their defaults.

    Raises:
        UserError: It is not valid JSON, or a field is missing or wrong.
    """
    values = parse_json(line)
    row = check(StudyRow, values)
    return row.model_dump(exclude=set(values)) | values


def unpack(path: Path) -> bytes:
    """Read a results file, decompressed if its name ends in ``.xz``.

    Raises:
        FileError: The file cannot be read.
        UserError: A compressed file is damaged.
    """
    content = read_bytes(path, MAX_FILE_BYTES)
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
    """Remove the rows of some runs; the file is replaced as a whole, other lines stay."""
    path = folder / ROWS
    if keys and path.is_file():
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
