"""Run a task for its row; as a program, answer tasks of a parent process."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placement_gym.backends import Finalist
from placement_gym.base import to_plain
from placement_gym.base.processes import Parent, serve
from placement_gym.bench.run import (
    AgentSpec,
    BenchEnvs,
    Json,
    OnEvaluation,
    Row,
    Task,
    describe_error,
    run_agent,
)
from placement_gym.problem import Placement


def run_task(
    task: Task,
    envs: BenchEnvs,
    factories: Mapping[str, Any] | None = None,
    on_evaluation: OnEvaluation = lambda speedup: None,
    forget: bool = True,
) -> Json:
    """Run a task and return its row; an exception becomes the row's ``error``.

    ``factories`` are agents that cannot be imported, by name. ``forget`` drops measurements of
    earlier runs first.
    """
    with warnings.catch_warnings():
        # Warnings of this package have its name as module, see ``warn_user``.
        warnings.filterwarnings("ignore", category=UserWarning, module="(?!placement_gym$)")
        try:
            bench_env = envs.get(task.env, task.make_kwargs)
            if forget:
                bench_env.clear_caches()
            agent = AgentSpec(task.agent, task.kwargs, (factories or {}).get(task.agent))
            row, placement = run_agent(bench_env, agent, task.seed, task.budget, on_evaluation)
        except (Exception, SystemExit) as error:
            return make_failed_row(task, describe_error(error))
        elsewhere = task.elsewhere
        if placement is None or elsewhere is None:
            return complete_task_row(task, row)
        try:
            return complete_task_row(task, row, measure_on(elsewhere, placement, envs))
        except (Exception, SystemExit) as error:
            error_text = f"scored elsewhere: {describe_error(error)}"
            return complete_task_row(task, row.change(error=error_text))


def complete_task_row(task: Task, row: Row, scored: Finalist | None = None) -> Json:
    return {
        "key": task.key,
        "problem": task.problem,
        "score_on": to_plain(task.score_on),
        **row.to_json(),
        "scored_ms": scored.measurement.latency_ms if scored else None,
        "scored_speedup": scored.speedup_vs_best_single if scored else None,
    }


def measure_on(task: Task, placement: Placement, envs: BenchEnvs) -> Finalist:
    """Measure a placement on the problem of a task, which must have its units and devices."""
    bench_env = envs.get(task.env, task.make_kwargs)
    bench_env.clear_caches()
    return bench_env.finals.choose([placement.assignment(bench_env.base.problem)])


def make_failed_row(task: Task, error: str) -> Json:
    row = Row.begin(
        agent=task.agent,
        label=AgentSpec(task.agent, task.kwargs).label,
        kwargs=task.kwargs,
        env=task.env,
        env_kwargs={"model": task.model, "devices": task.devices, **task.env_kwargs},
        model=Path(task.model).stem,
        model_fingerprint="",
        devices=[],
        seed=task.seed,
        budget=task.budget,
        error=error,
    )
    return complete_task_row(task, row)


class TaskProcess:
    """Answers tasks with their rows; environments stay open."""

    def __init__(self, start: Json, parent: Parent) -> None:
        # Last, the parent's folders hide no module of this package.
        sys.path += [entry for entry in start["path"] if entry not in sys.path]
        self.envs, self.heartbeat = BenchEnvs(), parent.heartbeat

    def __call__(self, request: Json) -> Any:
        self.heartbeat.count = 0

        def beat(speedup: float | None) -> None:
            self.heartbeat.touch_and_count("the step after an evaluation")

        return run_task(Task(**request["task"]), self.envs, on_evaluation=beat)


if __name__ == "__main__":
    serve(TaskProcess)
