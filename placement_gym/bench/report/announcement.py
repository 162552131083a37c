"""The announcement of a comparison on standard error, before it measures."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from placement_gym.backends.measured import predict_interference
from placement_gym.base import make_printable
from placement_gym.bench.run import N_FINALISTS, UNCHANGED, BenchEnv, is_measured
from placement_gym.bench.study import Task

START_S, COMPILE_S, INFERENCES, FINALS = 15.0, 0.3, 6, 6
"""For the estimate: seconds until the first evaluation, those of a compilation, inferences of an
evaluation, and evaluations that last as long as measuring the finalists of a run."""


def say(text: str, style: str = "") -> None:
    """Print a line on standard error; brackets in it are not markup."""
    console = Console(stderr=True)
    console.print(make_printable(text), style=style, highlight=False, markup=False)


def warn_if_busy(env_id: str) -> None:
    """Warn if other programs leave no core to an environment that measures."""
    busy = predict_interference() if is_measured(env_id) else ""
    if busy:
        say(busy, "bold yellow")


def announce(
    bench_env: BenchEnv, tasks: Sequence[Task], missing: Sequence[Task], notes: Sequence[str]
) -> None:
    """Print the runs; for measured environments also their estimated time."""
    for note in notes:
        say(note)
    problem, done = bench_env.base.problem, len(tasks) - len(missing)
    plan = [
        f"{problem.n_units} units on {', '.join(problem.device_names)}",
        f"{len(tasks)} runs" + (f", {done} of them in the folder already" if done else ""),
        f"{tasks[0].budget} evaluations for each search",
    ]
    if bench_env.measured:
        plan.append(f"up to {N_FINALISTS} finalists of each measured again")
    if bench_env.measured and missing:
        minutes = estimate_minutes(missing, bench_env.base.reference.latency_ms)
        plan.append(f"about {minutes} on an idle machine")
    say(f"{problem.units.graph.model}: {'; '.join(plan)}")


def count_evaluations(task: Task) -> int:
    """Evaluations of a run at most: those of a fixed choice are one."""
    return 1 if task.agent in UNCHANGED else task.budget


def estimate_minutes(missing: Sequence[Task], reference_ms: float) -> str:
    """Estimate how long runs on an idle machine take, from the latency of the reference."""
    evaluations = sum(count_evaluations(task) + FINALS for task in missing)
    seconds = START_S + evaluations * (COMPILE_S + INFERENCES * reference_ms / 1e3)
    minutes = max(round(seconds / 60), 1)
    return f"{minutes} minute{'s' * (minutes != 1)}"
