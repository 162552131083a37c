"""Replay of a row: its placement is evaluated again, and its numbers have to follow from that."""

from __future__ import annotations

import math
from typing import Any

from placement_gym.backends import MIN_GAIN, Finalist, judge
from placement_gym.base import raise_interrupt
from placement_gym.bench.run import ROUNDING, BenchEnv, BenchEnvs, Json, describe_error
from placement_gym.bench.study.task import Task
from placement_gym.bench.study.worker import measure_on
from placement_gym.problem import Placement, parse_assignment

MAX_INTERVALS = 2.0
"""Largest difference of two agreeing measurements, in half-widths of both: ours."""
MAX_DIFFERENCE = 0.5
"""Relative difference above which noise is no explanation, however large a row's own noise:
ours."""


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
