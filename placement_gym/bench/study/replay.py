"""Replay the placements of a study: simulated ones exactly, measured ones within noise."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.run.finalists import Finalist, fastest
from placement_gym.bench.study.spec import Task
from placement_gym.bench.study.worker import cached_bench_env, elsewhere
from placement_gym.errors import UserError
from placement_gym.placement import Placement, parse_assignment
from placement_gym.progress import progress_bar

ROUNDING = 1e-9
CHANCE = 2.0
"""Intervals by which two noisy measurements may differ."""


@dataclass(frozen=True)
class Verdict:
    """What became of one row.

    Attributes:
        key: Of the row.
        label: Agent, model and seed.
        problem: Why the row is not valid, or an empty string.
    """

    key: str
    label: str
    problem: str


def validate(folder: str | Path, quiet: bool = False) -> Iterator[Verdict]:
    """A verdict on each row that has a placement.

    The environment is made again from the row alone, and the placement evaluated: simulated
    latencies and speed-ups must be the same; a measured speed-up over the best single device must
    agree within twice the noise of both measurements, and the outputs with those of the reference
    device. Evaluations must not exceed the budget, or one episode where that is longer; a key must
    be that of its run, and appear once.

    Args:
        folder: Of the results.
        quiet: Show no progress.

    Raises:
        ValueError: There are no results of a study.
    """
    rows = rows_file.of_study(Path(folder))
    if not rows:
        raise UserError(f"{folder} holds no {rows_file.ROWS} with rows: run a study first")
    seen: set[str] = set()
    with progress_bar(len(rows), "rows", quiet) as report:
        for row in sorted(rows, key=lambda row: row["problem"]):
            label = f"{row['label']}, {row['model']}, seed {row['seed']}"
            report.update(report.task_ids[0], description=label)
            problem = "its key appears twice" if row["key"] in seen else why_not(row)
            seen.add(row["key"])
            report.advance(report.task_ids[0])
            yield Verdict(row["key"], label, problem)


def why_not(row: rows_file.Json) -> str:
    """Why a row does not hold, or an empty string; what cannot be replayed does not."""
    try:
        return replayed(row)
    except Exception as error:
        return f"cannot be replayed: {type(error).__name__}: {error}"


def replayed(row: rows_file.Json) -> str:
    """Why a row does not hold, or an empty string.

    Raises:
        Exception: Whatever making the environment or scoring the placement raises.
    """
    task = task_of(row)
    if task.key != row["key"]:
        return "its key is not that of its agent, problem, seed and budget"
    if row["placement"] is None:
        return "" if row["error"] else "neither a placement nor an error"
    bench_env = cached_bench_env(row["env"], json.dumps(row["env_kwargs"]))
    problem = bench_env.base.problem
    if problem.units.graph.fingerprint() != row["model_fingerprint"]:
        return "the model is another now"
    if row["evaluations"] > max(row["budget"], bench_env.episode_steps):
        return f"{row['evaluations']} evaluations exceed the budget of {row['budget']}"
    bench_env.clear_caches()
    again = fastest(bench_env, [parse_assignment(row["placement"], problem)])
    if bench_env.measured:
        return disagreement(row, again)
    now = {
        "latency_ms": again.measurement.latency_ms,
        "speedup": again.speedup,
        "speedup_vs_best_single": again.speedup_vs_best_single,
    }
    if row["scored_ms"]:
        placement = Placement.of(problem, again.assignment, bench_env.base.graph)
        now["scored_ms"] = elsewhere(task, placement).measurement.latency_ms
    wrong = [
        f"{field} {row[field]:.6g} is {value:.6g} now"
        for field, value in now.items()
        if not math.isclose(value, row[field], rel_tol=ROUNDING)
    ]
    return ", ".join(wrong)


def task_of(row: rows_file.Json) -> Task:
    """The task that a row is of."""
    env, env_kwargs, model, devices = json.loads(row["problem"])
    own = {name: row[name] for name in ("agent", "kwargs", "seed", "budget", "score_on")}
    return Task(env=env, env_kwargs=env_kwargs, model=model, devices=devices, **own)


def disagreement(row: rows_file.Json, again: Finalist) -> str:
    """How two noisy measurements of a placement disagree, or an empty string."""
    before, now = row["speedup_vs_best_single"], again.speedup_vs_best_single
    allowed = CHANCE * (again.noise + (row["noise"] or 0.0))
    if abs(now / before - 1.0) <= allowed:
        return ""
    return f"{before:.3f} x the best single device is {now:.3f} now"
