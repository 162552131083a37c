"""Replay of a row: its placement is evaluated again, and its numbers have to follow from that."""

from __future__ import annotations

import math
from typing import Any

from placement_gym.backends.verdicts import LEAST_GAIN, Finalist, judge
from placement_gym.base.errors import raise_interrupt
from placement_gym.bench.run.agent_run import describe_error
from placement_gym.bench.run.environment import BenchEnv, BenchEnvs
from placement_gym.bench.run.rows import ROUNDING, Json
from placement_gym.bench.study.task import Task
from placement_gym.bench.study.worker import measure_on
from placement_gym.problem.placement import Placement, parse_assignment

N_INTERVALS = 2.0
"""Two noisy measurements agree if they differ by at most this many half-widths of both."""
MOST_DIFFERENCE = 0.5
"""However noisy a row says that it is, a larger difference is none of noise."""


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
    failed = row["placement"] is None or row["latency_ms"] is None
    if failed and not row["error"]:
        return "it has neither a placement nor an error"
    if failed and row["evaluations"] <= task.budget:
        return ""  # an environment that cannot be made may be why it failed
    bench_env = envs.get(task.env, task.make_kwargs)
    if row["evaluations"] > max(task.budget, bench_env.max_episode_evaluations):
        return f"{row['evaluations']} evaluations exceed the budget of {task.budget}"
    if failed:
        return ""
    if not row["evaluations"]:
        return "it has a placement, but no evaluation"
    if changed := find_changes(row, bench_env.origin):
        return changed
    bench_env.clear_caches()
    again = bench_env.finals.choose([parse_assignment(row["placement"], bench_env.base.problem)])
    if bench_env.measured:
        return compare_measurements(row, again)
    return compare_numbers(row, simulate_again(row, task, bench_env, again, envs))


def find_changes(row: Json, origin: Json) -> str:
    """Say that a row was made from another model, other costs or devices; empty if it was not."""
    meant = {
        "model_fingerprint": "model is",
        "costs_fingerprint": "costs are",
        "devices": "devices are",
    }
    changed = [what for name, what in meant.items() if row[name] != origin[name]]
    return f"its {changed[0]} not, or no longer, as its problem says" if changed else ""


def simulate_again(
    row: Json, task: Task, bench_env: BenchEnv, again: Finalist, envs: BenchEnvs
) -> dict[str, Any]:
    """What the fields of a simulated row have to be, as far as they follow from its placement."""
    measurement = again.measurement
    now: dict[str, Any] = {
        "latency_ms": measurement.latency_ms,
        "latency_p90_ms": measurement.latency_p90_ms,
        "speedup": again.speedup,
        "speedup_vs_best_single": again.speedup_vs_best_single,
        "noise": again.noise,
        "n_submodels": measurement.n_submodels,
        "n_submodels_expected": measurement.n_submodels_expected,
    }
    if abs(again.speedup_vs_best_single - 1.0) >= LEAST_GAIN:
        now["beats_best_single"] = again.beats_best_single
    if row["greedy_latency_ms"] is not None and not task.env_kwargs.get("noise"):
        reference_ms = measurement.latency_ms * again.speedup
        now["greedy_speedup"] = reference_ms / row["greedy_latency_ms"]
    if row["scored_ms"] is not None:
        placement = Placement.of(bench_env.base.problem, again.assignment, bench_env.base.graph)
        scored = measure_on(task.elsewhere or task, placement, envs)
        now["scored_ms"] = scored.measurement.latency_ms
        now["scored_speedup"] = scored.speedup_vs_best_single
    return now


def compare_numbers(row: Json, now: dict[str, Any]) -> str:
    """Describe how a row differs from what its fields have to be; empty if it does not."""
    wrong = [name for name, value in now.items() if not is_alike(row[name], value)]
    return ", ".join(f"{name} was {show(row[name])} and is now {show(now[name])}" for name in wrong)


def is_alike(before: Any, now: Any) -> bool:
    """Return whether two values of a field are equal, numbers but for rounding."""
    if isinstance(before, float) and isinstance(now, float):
        return math.isclose(before, now, rel_tol=ROUNDING)
    return bool(before == now)


def show(value: Any) -> str:
    """A value of a field, as a message shows it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def compare_measurements(row: Json, again: Finalist) -> str:
    """Describe how two noisy measurements of a placement disagree; empty if they agree."""
    before, now = row["speedup_vs_best_single"], again.speedup_vs_best_single
    stated = judge(before, row["noise"], row["warning"])
    if row["beats_best_single"] != stated:
        return f"beats_best_single is {row['beats_best_single']!r}, by its numbers {stated!r}"
    allowed = min(N_INTERVALS * (again.noise + row["noise"]), MOST_DIFFERENCE)
    if abs(now / before - 1.0) <= allowed:
        return ""
    return f"speedup_vs_best_single was {before:.3f} and is now {now:.3f}"
