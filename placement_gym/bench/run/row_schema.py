"""A result row: the outcome of one run as JSON, and where it comes from."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, FiniteFloat, model_validator

from placement_gym.base import MAX_NUMBER, to_plain
from placement_gym.base.schemas import (
    MAX_BUDGET,
    MAX_BYTES,
    MAX_SEED,
    Fields,
    Name,
    check_plain,
    parse_json,
)
from placement_gym.version import VERSION

PACKAGES = ("openvino", "gymnasium", "stable-baselines3", "torch", "numpy")
"""Packages that results depend on."""


def origin() -> dict[str, str | None]:
    return {"version": VERSION, "commit": git_commit(), "processor": processor()}


@cache
def versions() -> dict[str, str]:
    """Versions of Python and ``PACKAGES``."""
    result = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            result[package] = version(package)
        except PackageNotFoundError:
            continue
    return result


@cache
def host() -> str:
    """The machine's name, architecture and system."""
    return f"{platform.node()} {platform.machine()} {sys.platform}"


@cache
def processor() -> str:
    file = Path("/proc/cpuinfo")  # of Linux
    text = file.read_text(errors="replace") if file.is_file() else ""
    listed = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return listed[1] if listed else platform.processor() or platform.machine()


@cache
def git_commit() -> str | None:
    """Commit of the source tree this package runs from; None if there is none."""
    return find_commit(Path(__file__))


def find_commit(file: Path) -> str | None:
    """Commit of the repository that tracks a file; None if none does, as in a venv inside one."""

    def run_git(*words: str) -> str:
        command = ["git", "-C", str(file.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    try:
        # An installed package inside a user's repository must not get that repository's commit.
        return (run_git("ls-files", file.name) and run_git("rev-parse", "--short", "HEAD")) or None
    except OSError:
        return None


def check_problem(text: str) -> str:
    match parse_json(text):
        case [str(), dict(), str(), _]:
            return text
    raise ValueError("it must be a list of environment, arguments, model and devices")


def check_time(text: str) -> str:
    """Return a time in ISO 8601."""
    datetime.fromisoformat(text)
    return text


MIN_MS, MAX_MS = 1e-250, 1e19
"""Latencies whose ratios are finite."""
Count = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Latency = Annotated[FiniteFloat, Field(ge=MIN_MS, le=MAX_MS)] | None
Speedup = Annotated[FiniteFloat, Field(ge=1 / MAX_NUMBER, le=MAX_NUMBER)] | None
Share = Annotated[FiniteFloat, Field(ge=0.0, le=1.0)]
NotNegative = Annotated[FiniteFloat, Field(ge=0.0, le=MAX_NUMBER)]
Version = Annotated[str, Field(max_length=64)]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{4,64}$")]
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
        model_fingerprint: Of its operators, and after a hyphen of the user's own inputs, if any.
        devices: Devices with their settings.
        seed: Seed of the run.
        budget: Evaluations allowed.
        evaluations: Evaluations used.
        stopped: Whether the search ended by itself before the budget was used.
        infeasible: Number of evaluations whose placement did not fit or run, after any repair.
        repaired: Number of evaluations whose placement did not fit and was repaired.
        disturbed: Number of evaluations with too few undisturbed samples; None before 0.4.
        costs_fingerprint: Of the cost table; None where latencies are measured.
        latency_ms: Median of the finalist, measured again.
        latency_p90_ms: 90th percentile of the same.
        greedy_latency_ms: Median of ``predict(deterministic=True)`` after learning.
        greedy_speedup: Its speed-up over the reference device, measured with it.
        speedup: Over the reference device.
        speedup_vs_best_single: Over the fastest feasible single device.
        noise: Half-width of the 95 % interval of ``speedup_vs_best_single``, relative to it.
        n_submodels: Submodels that the engine made.
        n_submodels_expected: Submodels that the placement needs.
        memory_bytes: Bytes of weights and state on each device.
        held_bytes: Bytes that each device reports, or None; None if nothing was compiled.
        wall_s: Seconds of search, without the compilation of kernels (with it before 0.4).
        cpu_s: CPU seconds of the search; None before 0.3.
        beats_best_single: ``"yes"``, ``"no"`` or ``"within noise"``.
        curve: (evaluations, seconds, best speed-up) at each improvement.
        warning: Why the finalist's measurement is too unreliable for a verdict, or ``""``.
        interference: Share of its time that other programs took, which the verdict allows for.
        placement: Unit -> device of the finalist; of a run that failed, of the best evaluation.
        start: The start of the search, such as a heuristic, that equals the finalist, or ``""``.
        error: Why there is no latency, or ``""``.
        version: Of this package.
        versions: Of Python and ``PACKAGES``.
        host: The machine.
        processor: Its name; None before 0.3.
        commit: Of this package's source tree.
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
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)]
    budget: Annotated[int, Field(ge=1, le=MAX_BUDGET)]
    evaluations: Count = 0
    stopped: bool = False
    infeasible: Count | None = None
    repaired: Count | None = None
    disturbed: Count | None = None
    costs_fingerprint: Name | None = None
    latency_ms: Latency = None
    latency_p90_ms: Latency = None
    greedy_latency_ms: Latency = None
    greedy_speedup: Speedup = None
    speedup: Speedup = None
    speedup_vs_best_single: Speedup = None
    noise: NotNegative | None = None
    n_submodels: Count | None = None
    n_submodels_expected: Count | None = None
    memory_bytes: list[Count] | None = None
    held_bytes: list[Count | None] | None = None
    wall_s: NotNegative = 0.0
    cpu_s: NotNegative | None = None
    beats_best_single: Name | None = None
    curve: list[Annotated[list[NotNegative], Field(min_length=3)]] = Field(default_factory=list)
    warning: str = ""
    interference: Share = 0.0
    placement: dict[str, str] | None = None
    start: str = ""
    error: str = ""
    version: Version | None
    versions: dict[str, Version]
    host: str
    processor: Name | None = None
    commit: Commit | None
    time: Annotated[str, AfterValidator(check_time)]

    @classmethod
    def begin(cls, **values: Any) -> Row:
        """Begin the row of a run, now and on this machine."""
        time = datetime.now(UTC).isoformat("T", "seconds")
        about: dict[str, Any] = {**origin(), "versions": versions(), "host": host(), "time": time}
        return cls(**to_plain(values), **about)

    def change(self, **values: Any) -> Row:
        return self.model_copy(update=values)

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = to_plain(dict(self))
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
    scored_ms: Latency
    scored_speedup: Speedup

    @model_validator(mode="after")
    def check_measured(self) -> StudyRow:
        """Refuse a latency without the other fields of a measurement."""
        required = ("placement", "speedup", "speedup_vs_best_single", "noise", "beats_best_single")
        missing = [name for name in required if getattr(self, name) is None]
        if self.latency_ms is not None and missing:
            raise ValueError(f"it has a latency, but no {missing[0]}")
        return self

    @model_validator(mode="after")
    def check_counts(self) -> StudyRow:
        """Refuse counts above the number of evaluations."""
        for name in ("infeasible", "repaired", "disturbed"):
            if (getattr(self, name) or 0) > self.evaluations:
                raise ValueError(
                    f"it has more {name} evaluations than evaluations ({self.evaluations})"
                )
        return self

    @model_validator(mode="after")
    def check_environment(self) -> StudyRow:
        """Refuse an environment that differs from that of the problem."""
        env, env_kwargs, model, _ = parse_json(self.problem)
        other_kwargs = {
            name: value
            for name, value in self.env_kwargs.items()
            if name not in ("model", "devices")  # a problem has them as the study names them
        }
        # A path with a variable, as ${DATA}, is resolved on each machine and cannot be compared.
        differs = "$" not in model and self.env_kwargs.get("model") != model
        if (self.env, other_kwargs) != (env, env_kwargs) or differs:
            raise ValueError("its environment is not that of its problem")
        return self
