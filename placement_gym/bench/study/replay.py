"""Replay of a study's rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from placement_gym.base.errors import UserError, raise_interrupt
from placement_gym.base.progress import progress_bar
from placement_gym.bench.run.agent_run import describe_error
from placement_gym.bench.run.environment import BenchEnvs
from placement_gym.bench.run.finalists import Finalist
from placement_gym.bench.run.remeasuring import choose_finalist
from placement_gym.bench.run.rows import ROUNDING, ROWS, Json, load_runs
from placement_gym.bench.study.task import Task, read_make_kwargs
from placement_gym.bench.study.worker import measure_on
from placement_gym.problem.placement import Placement, parse_assignment

N_INTERVALS = 2.0
"""Two noisy measurements agree if they differ by at most this many half-widths of both."""


@dataclass(frozen=True)
class Replay:
    """The result of replaying one row.

    Attributes:
        key: Key of the row.
        label: Agent, model and seed.
        error: Why the row is not valid, or an empty string.
    """

    key: str
    label: str
    error: str


def validate(folder: str | Path, quiet: bool = False) -> Iterator[Replay]:
    """Replay each row of a folder's results.

    The environment is made again from the row alone, and the placement is evaluated: simulated
    latencies and speed-ups must be the same; a measured speed-up over the best single device must
    agree within twice the noise of both measurements, and the outputs with those of the reference
    device. Evaluations must not exceed the budget, or one episode if that is longer. A key must be
    that of its run, and appear only once.

    Args:
        folder: Where the results are.
        quiet: Show no progress.

    Raises:
        UserError: There are no results of a study.
    """
    rows = load_runs(Path(folder))
    if not rows:
        raise UserError(f"{folder} has no {ROWS} with rows of a study: run a study first")
    seen: set[str] = set()
    with BenchEnvs() as envs, progress_bar(len(rows), "rows", quiet) as progress:
        for row in sorted(rows, key=lambda row: row["problem"]):
            label = f"{row['label']}, {row['model']}, seed {row['seed']}"
            progress.update(progress.task_ids[0], description=label)
            error = "its key appears twice" if row["key"] in seen else check_row(row, envs)
            seen.add(row["key"])
            progress.advance(progress.task_ids[0])
            yield Replay(row["key"], label, error)


def check_row(row: Json, envs: BenchEnvs) -> str:
    """Explain why a row is not valid, as one that cannot be replayed; empty if it is."""
    try:
        return replay_row(row, envs)
    except Exception as error:
        raise_interrupt(error)
        return f"cannot be replayed: {describe_error(error)}"


def replay_row(row: Json, envs: BenchEnvs) -> str:
    """Explain why a row is not valid; an empty string if it is.

    Raises:
        Exception: The environment cannot be made, or the placement cannot be evaluated.
    """
    task = Task.of_row(row)
    if task.key != row["key"]:
        return "its key is not that of its agent, problem, seed and budget"
    if row["placement"] is None or row["latency_ms"] is None:
        return "" if row["error"] else "it has neither a placement nor an error"
    bench_env = envs.get(row["env"], read_make_kwargs(row))
    problem = bench_env.base.problem
    if problem.units.graph.fingerprint() != row["model_fingerprint"]:
        return "the model has changed"
    if row["evaluations"] > max(row["budget"], bench_env.max_episode_evaluations):
        return f"{row['evaluations']} evaluations exceed the budget of {row['budget']}"
    bench_env.clear_caches()
    again = choose_finalist(bench_env, [parse_assignment(row["placement"], problem)])
    if bench_env.measured:
        return compare_measurements(row, again)
    now = {
        "latency_ms": again.measurement.latency_ms,
        "speedup": again.speedup,
        "speedup_vs_best_single": again.speedup_vs_best_single,
    }
    if row["scored_ms"]:
        placement = Placement.of(problem, again.assignment, bench_env.base.graph)
        now["scored_ms"] = measure_on(
            task.elsewhere or task, placement, envs
        ).measurement.latency_ms
    wrong = [
        f"{field} was {row[field]:.6g} and is now {value:.6g}"
        for field, value in now.items()
        if not math.isclose(value, row[field], rel_tol=ROUNDING)
    ]
    return ", ".join(wrong)


def compare_measurements(row: Json, again: Finalist) -> str:
    """Describe how two noisy measurements of a placement disagree; empty if they agree."""
    before, now = row["speedup_vs_best_single"], again.speedup_vs_best_single
    allowed = N_INTERVALS * (again.noise + (row["noise"] or 0.0))
    if abs(now / before - 1.0) <= allowed:
        return ""
    return f"speedup_vs_best_single was {before:.3f} and is now {now:.3f}"
