"""What a comparison says on standard error before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from placement_gym.backends.measured.interference import predict_interference
from placement_gym.base.texts import make_printable
from placement_gym.bench.run.agent_run import N_FINALISTS
from placement_gym.bench.run.environment import BenchEnv, is_measured
from placement_gym.bench.study.task import Task


def say(text: str, style: str = "") -> None:
    """Print a line on standard error; brackets in it are not markup."""
    console = Console(stderr=True)
    console.print(make_printable(text), style=style, highlight=False, markup=False)


def warn_if_busy(env_id: str) -> None:
    """Say that other programs leave no core to an environment that measures, if it is so."""
    busy = predict_interference() if is_measured(env_id) else ""
    if busy:
        say(busy, "bold yellow")


def announce(
    bench_env: BenchEnv, tasks: Sequence[Task], missing: Sequence[Task], notes: Sequence[str]
) -> None:
    """Say what will run."""
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
    say(f"{problem.units.graph.model}: {'; '.join(plan)}")
