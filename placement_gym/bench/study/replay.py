"""Rows of a study, replayed and published."""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from placement_gym.base.errors import UserError, raise_interrupt
from placement_gym.base.files import make_output_folder, write_bytes
from placement_gym.base.progress import progress_bar
from placement_gym.bench.run.agent_run import describe_error
from placement_gym.bench.run.environment import BenchEnvs
from placement_gym.bench.run.finalists import Finalist
from placement_gym.bench.run.remeasuring import choose_finalist
from placement_gym.bench.run.rows import PACKED_ROWS, ROWS, Json, load_runs
from placement_gym.bench.study.spec import Study
from placement_gym.bench.study.task import Task, expand_variables, read_make_kwargs
from placement_gym.bench.study.worker import score_elsewhere
from placement_gym.problem.placement import Placement, parse_assignment

ROUNDING = 1e-9
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
    """Why a row is not valid, or an empty string; a row that cannot be replayed is not valid."""
    try:
        return replay_row(row, envs)
    except Exception as error:
        raise_interrupt(error)
        return f"cannot be replayed: {describe_error(error)}"


def replay_row(row: Json, envs: BenchEnvs) -> str:
    """Why a row is not valid, or an empty string.

    Raises:
        Exception: The environment cannot be made, or the placement cannot be evaluated.
    """
    task = task_of(row)
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
        now["scored_ms"] = score_elsewhere(task, placement, envs).measurement.latency_ms
    wrong = [
        f"{field} was {row[field]:.6g} and is now {value:.6g}"
        for field, value in now.items()
        if not math.isclose(value, row[field], rel_tol=ROUNDING)
    ]
    return ", ".join(wrong)


def task_of(row: Json) -> Task:
    """The task that made a row."""
    env, env_kwargs, model, devices = json.loads(row["problem"])
    own = {name: row[name] for name in ("agent", "kwargs", "seed", "budget", "score_on")}
    return Task(env=env, env_kwargs=env_kwargs, model=model, devices=devices, **own)


def compare_measurements(row: Json, again: Finalist) -> str:
    """Describe how two noisy measurements of a placement disagree; empty if they agree."""
    before, now = row["speedup_vs_best_single"], again.speedup_vs_best_single
    allowed = N_INTERVALS * (again.noise + (row["noise"] or 0.0))
    if abs(now / before - 1.0) <= allowed:
        return ""
    return f"speedup_vs_best_single was {before:.3f} and is now {now:.3f}"


def publish_rows(study: Study, results: str | Path, out: str | Path) -> tuple[Path, int]:
    """Write the rows of a study as ``results.jsonl.xz``, from which reports and replays read.

    Args:
        study: Whose rows, in its order.
        results: Folder of the results.
        out: Folder for the file.

    Returns:
        The file, and how many of the study's runs it lacks.

    Raises:
        UserError: There are no results of this study, or the file cannot be written.
    """
    by_key = {row["key"]: row for row in load_runs(Path(results))}
    tasks = study.tasks()
    rows = [make_portable(by_key[task.key]) for task in tasks if task.key in by_key]
    if not rows:
        raise UserError(f"{results} has no {ROWS} with rows of this study: run it first")
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path = make_output_folder(out) / PACKED_ROWS
    write_bytes(path, lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))
    return path, len(tasks) - len(rows)


def make_portable(row: Json) -> Json:
    """The row without the machine's name, with the model's path as the study names it."""
    model = json.loads(row["problem"])[2]
    error = row["error"]
    if "$" in model:
        error = error.replace(expand_variables(model), model)
    env_kwargs = row["env_kwargs"] | {"model": model}
    return row | {"host": "", "env_kwargs": env_kwargs, "error": error}
