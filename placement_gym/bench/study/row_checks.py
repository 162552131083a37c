"""Check result rows: find missing columns, and replay the rows of studies.

A replay opens the model and files that a row names: check rows that you trust.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from placement_gym.backends import MIN_GAIN, Finalist, judge
from placement_gym.base import UserError, is_file, join_words, progress_bar, raise_interrupt
from placement_gym.bench.run import (
    ROWS,
    BenchEnv,
    BenchEnvs,
    Json,
    Task,
    describe_error,
    describe_finalist,
    read_runs,
    unpack,
)
from placement_gym.bench.study.worker import measure_on
from placement_gym.problem import parse_assignment
from placement_gym.solvers import ROUNDING

COLUMNS = (
    "version", "commit", "processor",
    "agent", "kwargs", "env", "env_kwargs", "seed", "budget",
    "curve", "placement", "cpu_s",
)  # fmt: skip
"""The columns that rows of every page share, from which a run can be made again; see ``Row``."""
OF_STUDIES = {"score_on", "placement"}
"""Only rows that can be replayed, of studies and comparisons, have both."""
ORIGIN = {
    "model_fingerprint": "model is",
    "costs_fingerprint": "costs are",
    "devices": "devices are",
}
"""Fields that identify a problem; see ``BenchEnv.origin``."""
REPLAYED = (
    *("latency_ms", "latency_p90_ms", "speedup", "speedup_vs_best_single", "noise"),
    *("n_submodels", "n_submodels_expected"),
)
"""Fields of a simulated row that its placement determines."""
MAX_INTERVALS = 2.0
"""Largest difference of two agreeing measurements, in half-widths of both. Hand-tuned."""
MAX_DIFFERENCE = 0.5
"""Largest relative difference that noise explains. Hand-tuned."""


def read_columns(path: Path) -> Iterator[Json]:
    """Read the rows of a file of any page, without other lines."""
    for line in unpack(path).splitlines():
        with suppress(ValueError, RecursionError):
            values = json.loads(line)  # also infinite numbers, as in rows of 0.2.0
            if isinstance(values, dict):
                yield values


def find_missing_columns(row: Json) -> tuple[str, ...]:
    """Find the columns that a row lacks; one without a result needs no placement."""
    needed = [name for name in COLUMNS if name != "placement" or not row.get("error")]
    return tuple(name for name in needed if row.get(name) is None)


def describe_older(path: Path) -> str:
    """Say which rows of a file are of an older schema, and what they lack; empty if none is."""
    rows = [*read_columns(path)]
    lacking = Counter(missing for row in rows if (missing := find_missing_columns(row)))
    parts = [f"{count} have no {join_words(names, 'or')}" for names, count in lacking.items()]
    if not parts:
        return ""
    return f"{lacking.total()} of {len(rows)} rows are of an older schema: {'; '.join(parts)}"


class Replay(NamedTuple):
    """The result of replaying one row.

    Attributes:
        key: Key of the row; empty for a line that is no row.
        label: Agent, model and seed, or the line.
        error: Why the row is not valid, or an empty string.
    """

    key: str
    label: str
    error: str


def validate(folder: str | Path, quiet: bool = False) -> Iterator[Replay]:
    """Replay each row of a folder of results, or of a file; see ``check_rows``.

    A damaged line is not valid, and neither is a second row of one run. For a file of another
    benchmark's rows, which state no problem, nothing is yielded.

    Raises:
        UserError: There are no results of a study.
    """
    path = Path(folder)
    if is_file(path) and not any(row.keys() >= OF_STUDIES for row in read_columns(path)):
        return
    rows, damaged = read_runs(path)
    if not rows and not damaged:
        raise UserError(f"{folder} has no {ROWS} with rows of a study: run a study first")
    for line in damaged:
        name, _, error = line.partition(": ")
        yield Replay("", name, error)
    first: dict[str, Json] = {}
    for row in rows:
        if first.setdefault(row["key"], row) is not row:
            yield Replay(row["key"], name_run(row), "its run appears twice")
    yield from check_rows([*first.values()], quiet)


def check_rows(rows: Sequence[Json], quiet: bool = False) -> Iterator[Replay]:
    """Replay rows, problem by problem: evaluate each placement in the environment made again.

    Simulated numbers must be the same; a measured speed-up over the best single device must agree
    within twice the noise of both measurements, and the outputs with those of the reference device.
    Evaluations must not exceed the budget, or one episode if that is longer.
    """
    with BenchEnvs() as envs, progress_bar(len(rows), "rows", quiet) as progress:
        for row in sorted(rows, key=lambda row: str(row["problem"])):
            progress.update(progress.task_ids[0], description=name_run(row))
            yield Replay(row["key"], name_run(row), check_row(row, envs))
            progress.advance(progress.task_ids[0])


def name_run(row: Json) -> str:
    return f"{row['label']:.100}, {row['model']:.100}, seed {row['seed']}"


def check_row(row: Json, envs: BenchEnvs) -> str:
    """Explain why a row is not valid; empty if it is."""
    try:
        return replay_row(row, Task.from_row(row), envs)
    except Exception as error:
        raise_interrupt(error)
        return f"cannot be replayed: {describe_error(error)}"


def replay_row(row: Json, task: Task, envs: BenchEnvs) -> str:
    if "extension" in {**task.env_kwargs, **task.score_on}:
        return "its environment loads a library of operators, which is code: it is not replayed"
    failed = row["placement"] is None or row["latency_ms"] is None
    if failed and not row["error"]:
        return "it has neither a placement nor an error"
    if failed and row["evaluations"] <= task.budget:
        return ""  # an environment that cannot be made may be why it failed
    bench_env = envs.get(task.env, task.make_kwargs)
    if row["evaluations"] > max(task.budget, bench_env.episode_evaluations):
        return f"{row['evaluations']} evaluations exceed the budget of {task.budget}"
    if failed:
        return ""
    if not row["evaluations"]:
        return "it has a placement, but no evaluation"
    for name, value in bench_env.origin.items():
        if row[name] != value:
            return f"its {ORIGIN[name]} not, or no longer, as its problem says"
    bench_env.clear_caches()
    finalist = bench_env.finals.choose([parse_assignment(row["placement"], bench_env.base.problem)])
    if bench_env.measured:
        return compare_measurements(row, finalist)
    return compare_numbers(row, simulate_again(row, task, bench_env, finalist, envs))


def simulate_again(
    row: Json, task: Task, bench_env: BenchEnv, finalist: Finalist, envs: BenchEnvs
) -> dict[str, Any]:
    """Compute the fields of a simulated row that its placement determines."""
    found = describe_finalist(finalist)
    values = {name: found[name] for name in REPLAYED}
    if abs(finalist.speedup_vs_best_single - 1.0) >= MIN_GAIN:
        values["beats_best_single"] = finalist.beats_best_single
    if row["greedy_latency_ms"] is not None and not task.env_kwargs.get("noise"):
        reference_ms = found["latency_ms"] * finalist.speedup
        values["greedy_speedup"] = reference_ms / row["greedy_latency_ms"]
    if row["scored_ms"] is not None:
        placement = bench_env.to_placement(finalist.assignment)
        scored = measure_on(task.elsewhere or task, placement, envs)
        values["scored_ms"] = scored.measurement.latency_ms
        values["scored_speedup"] = scored.speedup_vs_best_single
    return values


def compare_numbers(row: Json, values: dict[str, Any]) -> str:
    """Describe how a row differs from expected values; empty if it does not."""

    def is_alike(stated: Any, value: Any) -> bool:
        if isinstance(stated, float) and isinstance(value, float):
            return math.isclose(stated, value, rel_tol=ROUNDING)
        return bool(stated == value)

    def show(value: Any) -> str:
        return f"{value:.6g}" if isinstance(value, float) else str(value)

    return ", ".join(
        f"{name} was {show(row[name])} and is now {show(value)}"
        for name, value in values.items()
        if not is_alike(row[name], value)
    )


def compare_measurements(row: Json, finalist: Finalist) -> str:
    """Describe how two noisy measurements of a placement disagree; empty if they agree."""
    stated, measured = row["speedup_vs_best_single"], finalist.speedup_vs_best_single
    verdict = judge(stated, row["noise"], row["warning"])
    if row["beats_best_single"] != verdict:
        return f"beats_best_single is {row['beats_best_single']!r}, by its numbers {verdict!r}"
    allowed = min(MAX_INTERVALS * (finalist.noise + row["noise"]), MAX_DIFFERENCE)
    if abs(measured / stated - 1.0) <= allowed:
        return ""
    return f"speedup_vs_best_single was {stated:.3f} and is now {measured:.3f}"
