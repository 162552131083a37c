"""Result rows: one JSON object per run, in a file that survives a kill."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from placement_gym.bench.run.provenance import git_commit, host, versions
from placement_gym.errors import UserError

Json = dict[str, Any]
ROWS = "results.jsonl"


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
        latency_ms: Median of the finalist, measured again.
        latency_p90_ms: 90th percentile of the same.
        greedy_latency_ms: Median of ``predict(deterministic=True)`` after learning.
        greedy_speedup: Its speed-up over the reference device, measured beside it.
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
    """Convert a value to what JSON can hold: tuples to lists, NaN and infinite numbers to None."""
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def append_row(path: Path, row: Json) -> None:
    """Add one line to a results file; a last line that a kill has torn is cut off first."""
    cut_torn_line(path)
    with path.open("ab") as file:
        file.write(json.dumps(row).encode() + b"\n")


def cut_torn_line(path: Path) -> None:
    """Cut off a last line that a kill has torn; make the file if there is none."""
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        if file.read() not in (b"", b"\n"):
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def load_rows(path: Path) -> list[Json]:
    """Read the rows of a results file; a torn last line does not count.

    Raises:
        UserError: Another line is not valid JSON.
    """
    if not path.is_file():
        return []
    rows = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {number} is not valid JSON: {error}") from error
    return rows


def load_runs(folder: Path) -> list[Json]:
    """Read the rows of a folder's runs, without failed runs that were done again.

    Rows of comparisons that version 0.1.0 wrote have no ``key`` and are left out.
    """
    rows = [row for row in load_rows(folder / ROWS) if "key" in row]
    latest = {row["key"]: row for row in rows}
    return [row for row in rows if not row["error"] or row is latest[row["key"]]]


def remove_rows(folder: Path, keys: Collection[str]) -> None:
    """Remove the rows of some runs; the file is replaced as a whole."""
    path = folder / ROWS
    kept = [row for row in load_rows(path) if row.get("key") not in keys]
    part = path.with_suffix(".part")
    part.write_text("".join(json.dumps(row) + "\n" for row in kept))
    part.replace(path)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep every other process from writing into the folder.

    Raises:
        UserError: Another process is writing into it.
    """
    lock = FileLock(folder / ".lock")
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
