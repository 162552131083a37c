"""Result rows: one JSON object a run, in a file that survives a kill."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from placement_gym.errors import UserError
from placement_gym.version import VERSION

Json = dict[str, Any]
ROWS = "results.jsonl"
PACKAGES = ("openvino", "gymnasium", "stable-baselines3", "torch", "numpy")


@cache
def versions() -> dict[str, str]:
    """Versions of Python, this package and those it stands on."""
    found = {"python": platform.python_version(), "placement-gym": VERSION}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@cache
def host() -> str:
    """The machine's name, architecture and system."""
    return f"{platform.node()} {platform.machine()} {sys.platform}"


@cache
def git_commit() -> str | None:
    """Commit of the source tree this package runs from; None outside of one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


@dataclass(frozen=True)
class Row:
    """One run of one agent. Latencies in ms; unknown values are None.

    Attributes:
        agent: Name of the agent.
        label: Name and options, as tables print them.
        kwargs: Options it was made with.
        env: Id of the environment.
        env_kwargs: What the environment was made with.
        model: Name of the model.
        model_fingerprint: Of its operator graph.
        costs_fingerprint: Of the cost table; None where latencies are measured.
        devices: Devices with their settings.
        seed: Seed of the run.
        budget: Evaluations allowed.
        evaluations: Evaluations used.
        latency_ms: Median of the finalist, measured afresh.
        latency_p90_ms: 90th percentile of the same.
        greedy_latency_ms: Median of ``predict(deterministic=True)`` after learning.
        greedy_speedup: Of the same over the reference device, measured beside it.
        speedup: Over the reference device.
        speedup_vs_best_single: Over the fastest feasible single device.
        noise: Half-width of the uncertainty of the latter, as a fraction.
        n_submodels: Submodels that the engine made.
        n_submodels_expected: Submodels that the placement needs.
        wall_s: Seconds of search.
        beats_best_single: ``"yes"``, ``"no"`` or ``"within noise"``.
        curve: (evaluations, seconds, best speed-up) at each improvement.
        placement: Unit -> device of the finalist.
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
    placement: Mapping[str, str] | None = None
    error: str = ""
    versions: Mapping[str, str] = field(default_factory=versions)
    host: str = field(default_factory=host)
    git: str | None = field(default_factory=git_commit)
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat("T", "seconds"))

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is not finite becomes None."""
        values: dict[str, Any] = plain(asdict(self))
        return values


def plain(value: Any) -> Any:
    """The value as JSON can hold it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def append(path: Path, row: Row) -> None:
    """Add a row to a results file; see ``append_json``."""
    append_json(path, row.to_json())


def append_json(path: Path, values: Json) -> None:
    """Add one line to a results file; a last line that a kill has torn is cut off first."""
    mend(path)
    with path.open("ab") as file:
        file.write(json.dumps(values).encode() + b"\n")


def mend(path: Path) -> None:
    """Cut off a last line that a kill has torn; make the file if there is none."""
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        if file.read() not in (b"", b"\n"):
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def load(path: Path) -> list[Json]:
    """The rows of a results file; a torn last line is none.

    Raises:
        ValueError: Another line is no JSON.
    """
    if not path.is_file():
        return []
    rows = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {number} is no JSON: {error}") from error
    return rows


def of_study(folder: Path) -> list[Json]:
    """The rows that studies wrote into a folder, but for failed runs that were done again."""
    rows = [row for row in load(folder / ROWS) if "key" in row]
    latest = {row["key"]: row for row in rows}
    return [row for row in rows if not row["error"] or row is latest[row["key"]]]


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Nobody else writes into the folder meanwhile.

    Raises:
        ValueError: Somebody does.
    """
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(f"another process is writing into {folder}") from None
    try:
        yield
    finally:
        lock.release()
