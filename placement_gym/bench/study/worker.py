"""What a worker does: one task, one row."""

from __future__ import annotations

import json
import tempfile
import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from placement_gym.bench.run.agent_run import run_agent
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.finalists import Finalist, fastest
from placement_gym.bench.run.rows import Row
from placement_gym.bench.study.spec import Task
from placement_gym.placement import Placement

Result = dict[str, Any]
KEPT = 4


def run_task(task: Task) -> Result:
    """The row of one run, with the task's ``key``.

    Whatever goes wrong is an ``error`` in the row: it ends this run, not the study. A placement
    that was found is kept even if it could not be scored elsewhere.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            bench_env = cached_bench_env(task.env, json.dumps(task.make_kwargs))
            bench_env.clear_caches()
            agent = AgentSpec(task.agent, task.kwargs)
            row, placement = run_agent(bench_env, agent, task.seed, task.budget)
        except Exception as error:
            return failed(task, named(error))
        if placement is None or not task.score_on:
            return result(task, row)
        try:
            return result(task, row, elsewhere(task, placement))
        except Exception as error:
            return result(task, replace(row, error=f"scored elsewhere: {named(error)}"))


def named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def result(task: Task, row: Row, scored: Finalist | None = None) -> Result:
    """A row with what belongs to a study."""
    return {
        "key": task.key,
        "problem": task.problem,
        "score_on": dict(task.score_on),
        **row.to_json(),
        "scored_ms": scored.measurement.latency_ms if scored else None,
        "scored_speedup": scored.speedup_vs_best_single if scored else None,
    }


def elsewhere(task: Task, placement: Placement) -> Finalist:
    """The placement where the task wants it to be scored once more.

    Raises:
        PlacementMismatchError: Units or devices are others there.
    """
    bench_env = cached_bench_env(task.score_env, json.dumps(task.score_kwargs))
    bench_env.clear_caches()
    return fastest(bench_env, [placement.assignment(bench_env.base.problem)])


def failed(task: Task, error: str) -> Result:
    """The row of a run that did not happen."""
    row = Row(
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
    return result(task, row)


@lru_cache(maxsize=KEPT)
def cached_bench_env(env: str, make_kwargs: str) -> BenchEnv:
    """The environment of an id and JSON arguments; the latest few are kept."""
    return BenchEnv.make(env, json.loads(make_kwargs), Path(tempfile.gettempdir()))
