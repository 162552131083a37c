"""The check of result rows, of a study's and of a folder's.

A row is replayed in this process, with the model, the files and the variables that it names: check
rows that you trust.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placement_gym.backends import MIN_GAIN, Finalist, judge
from placement_gym.base import UserError, is_file, progress_bar, raise_interrupt
from placement_gym.bench.run import (
    OF_STUDIES,
    ROUNDING,
    ROWS,
    BenchEnv,
    BenchEnvs,
    Json,
    describe_error,
    read_columns,
    read_runs,
)
from placement_gym.bench.study.task import Task
from placement_gym.bench.study.worker import measure_on
from placement_gym.problem import Placement, parse_assignment


@dataclass(frozen=True)
class Replay:
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
    """Replay each row of a folder's results, or of a file's; see ``check_rows``.

    Rows are replayed in this process, which opens the files that they name: check rows that you
    trust. A damaged line is not valid, and neither is a second row of one run. Rows of a page's
    own benchmark have no problem that could be made again, and nothing is yielded for them.

    Args:
        folder: Where the results are.
        quiet: Show no progress.

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
    first = {row["key"]: place for place, row in reversed([*enumerate(rows)])}
    for row in (row for place, row in enumerate(rows) if first[row["key"]] != place):
        yield Replay(row["key"], name_run(row), "its run appears twice")
    once = [rows[place] for place in first.values()]
    for place, error in check_rows(once, quiet):
        yield Replay(once[place]["key"], name_run(once[place]), error)


def check_rows(rows: Sequence[Json], quiet: bool = False) -> Iterator[tuple[int, str]]:
    """Replay rows, and say of each why it does not hold.

    The environment of its problem is made again and its placement evaluated: what follows from
    that must be what the row states. Simulated numbers must be the same; a measured speed-up over
    the best single device must agree within twice the noise of both measurements, and the outputs
    with those of the reference device. Evaluations must not exceed the budget, or one episode if
    that is longer.

    Args:
        rows: As ``load_runs`` reads them.
        quiet: Show no progress.

    Yields:
        The place of a row in ``rows``, and an empty string if it holds; those of one problem
        follow each other.
    """
    places = sorted(range(len(rows)), key=lambda place: str(rows[place]["problem"]))
    with BenchEnvs() as envs, progress_bar(len(rows), "rows", quiet) as progress:
        for place in places:
            row = rows[place]
            progress.update(progress.task_ids[0], description=name_run(row))
            yield place, check_row(row, envs)
            progress.advance(progress.task_ids[0])


def name_run(row: Json) -> str:
    """Agent, model and seed of a row."""
    return f"{row['label']:.100}, {row['model']:.100}, seed {row['seed']}"


MAX_INTERVALS = 2.0
"""Largest difference of two agreeing measurements, in half-widths of both. Hand-tuned."""
MAX_DIFFERENCE = 0.5
"""Relative difference above which noise is no explanation, however large a row's own noise.
Hand-tuned."""


def check_row(row: Json, envs: BenchEnvs) -> str:
    """Explain why a row is not valid, as one that cannot be replayed; empty if it is."""
    try:
        return replay_row(row, Task.of_row(row), envs)
    except Exception as error:
        raise_interrupt(error)
        return f"cannot be replayed: {describe_error(error)}"


def replay_row(row: Json, task: Task, envs: BenchEnvs) -> str:
    """Explain why a row is not valid; an empty string if it is.

    Raises:
        Exception: The environment cannot be made, or the placement cannot be evaluated.
    """
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
    if changed := find_changes(row, bench_env.origin):
        return changed
    bench_env.clear_caches()
    finalist = bench_env.finals.choose([parse_assignment(row["placement"], bench_env.base.problem)])
    if bench_env.measured:
        return compare_measurements(row, finalist)
    return compare_numbers(row, simulate_again(row, task, bench_env, finalist, envs))


def find_changes(row: Json, origin: Json) -> str:
    """Describe a difference of a row's model, costs or devices; empty if there is none."""
    expected_values = {
        "model_fingerprint": "model is",
        "costs_fingerprint": "costs are",
        "devices": "devices are",
    }
    changed = [what for name, what in expected_values.items() if row[name] != origin[name]]
    return f"its {changed[0]} not, or no longer, as its problem says" if changed else ""


def simulate_again(
    row: Json, task: Task, bench_env: BenchEnv, finalist: Finalist, envs: BenchEnvs
) -> dict[str, Any]:
    """Expected values of the fields of a simulated row that its placement determines."""
    measurement = finalist.measurement
    values: dict[str, Any] = {
        "latency_ms": measurement.latency_ms,
        "latency_p90_ms": measurement.latency_p90_ms,
        "speedup": finalist.speedup,
        "speedup_vs_best_single": finalist.speedup_vs_best_single,
        "noise": finalist.noise,
        "n_submodels": measurement.n_submodels,
        "n_submodels_expected": measurement.n_submodels_expected,
    }
    if abs(finalist.speedup_vs_best_single - 1.0) >= MIN_GAIN:
        values["beats_best_single"] = finalist.beats_best_single
    if row["greedy_latency_ms"] is not None and not task.env_kwargs.get("noise"):
        reference_ms = measurement.latency_ms * finalist.speedup
        values["greedy_speedup"] = reference_ms / row["greedy_latency_ms"]
    if row["scored_ms"] is not None:
        placement = Placement.of(bench_env.base.problem, finalist.assignment, bench_env.base.graph)
        scored = measure_on(task.elsewhere or task, placement, envs)
        values["scored_ms"] = scored.measurement.latency_ms
        values["scored_speedup"] = scored.speedup_vs_best_single
    return values


def compare_numbers(row: Json, values: dict[str, Any]) -> str:
    """Describe how a row differs from what its fields have to be; empty if it does not."""
    wrong = [name for name, value in values.items() if not is_alike(row[name], value)]
    return ", ".join(
        f"{name} was {show(row[name])} and is now {show(values[name])}" for name in wrong
    )


def is_alike(stated: Any, value: Any) -> bool:
    """Return whether two values of a field are equal, numbers but for rounding."""
    if isinstance(stated, float) and isinstance(value, float):
        return math.isclose(stated, value, rel_tol=ROUNDING)
    return bool(stated == value)


def show(value: Any) -> str:
    """A value of a field, as a message shows it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


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
