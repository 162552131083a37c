"""What a worker does: one task, one row; and no longer than its parent lives."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import warnings
from functools import lru_cache
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.bench.arena import Arena
from placement_gym.bench.finalists import fastest
from placement_gym.bench.resolve import AgentSpec
from placement_gym.bench.results import Row
from placement_gym.bench.run import run_agent
from placement_gym.bench.study import Task
from placement_gym.placement import Placement

Result = dict[str, Any]
KEPT = 4


def run_task(task: Task) -> Result:
    """The row of one run, with the task's ``key``.

    An environment that cannot be made is an ``error`` in the row, as an agent's failure is.
    """
    agent = AgentSpec(task.agent, task.kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            arena = arena_of(task.env, json.dumps(task.make_kwargs))
            row, placement = run_agent(arena, agent, task.seed, task.budget)
            scored_ms = None if placement is None else elsewhere(task, placement)
        except (ValueError, TypeError, KeyError, OSError, RuntimeError) as error:
            return failed(task, f"{type(error).__name__}: {error}")
    return {"key": task.key, "problem": task.problem, **row.to_json(), "scored_ms": scored_ms}


def elsewhere(task: Task, placement: Placement) -> float | None:
    """The latency where the task wants its finalist to be scored once more; None if nowhere."""
    if not task.score_on:
        return None
    changes = dict(task.score_on)
    env = changes.pop("env", task.env)
    arena = arena_of(env, json.dumps(task.make_kwargs | changes))
    problem = arena.base.problem
    index = {name: device for device, name in enumerate(problem.device_names)}
    devices = [index[placement.units[unit]] for unit in problem.units.names]
    return fastest(arena, [np.array(devices)]).measurement.latency_ms


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
    return {"key": task.key, "problem": task.problem, **row.to_json(), "scored_ms": None}


@lru_cache(maxsize=KEPT)
def arena_of(env: str, make_kwargs: str) -> Arena:
    """The environment of an id and JSON arguments; the latest few are kept."""
    return Arena.make(env, json.loads(make_kwargs), Path(tempfile.gettempdir()))


def watch_parent() -> None:
    """End this process as soon as its parent has: even a killed one leaves nothing behind."""
    parent = parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
